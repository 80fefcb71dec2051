"""Generates `src/callgate/_gen` from the protocol files at the root of the repository.

Run it with the pinned grpcio-tools of `requirements-dev.txt`; another version
would raise the floor of the protobuf and grpcio that users need.
`--check` writes nothing and exits 1 if the committed files differ.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

PINNED_TOOLS = "1.71.2"
HERE = Path(__file__).resolve().parent
PROTO_ROOT = HERE.parents[1] / "proto"
TARGET = HERE / "src" / "callgate" / "_gen"
MARKERS = {
    "__init__.py": '"""Generated code. Only `callgate._wire` may import it."""\n',
    "callgate/__init__.py": '"""Generated code."""\n',
    "callgate/v1/__init__.py": '"""Generated code of the package callgate.v1."""\n',
}
# `from callgate.v1 import x_pb2` would find the SDK, not the generated package.
ABSOLUTE_IMPORT = re.compile(r"^from callgate\.v1 import (\w+_pb2)", re.MULTILINE)


def generate(target: Path) -> None:
    """Writes the whole generated package into an empty folder."""
    from grpc_tools import protoc

    protos = sorted(str(path.relative_to(PROTO_ROOT)) for path in PROTO_ROOT.glob("callgate/v1/*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"-I{PROTO_ROOT}",
            f"-I{files('grpc_tools') / '_proto'}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            *protos,
        ]
    )
    if status != 0:
        sys.exit(f"protoc failed with status {status}")
    for path in target.rglob("*.py*"):
        path.write_text(ABSOLUTE_IMPORT.sub(r"from . import \1", path.read_text()))
    for empty in target.rglob("*_pb2_grpc.py"):
        # A file without services has no stubs worth keeping.
        if "class " not in empty.read_text():
            empty.unlink()
    for name, text in MARKERS.items():
        (target / name).write_text(text)


def contents(folder: Path) -> dict[str, bytes]:
    """Every generated file by its path inside the folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".py", ".pyi"}
    }


def main() -> int:
    """Generates or checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    found = version("grpcio-tools")
    if found != PINNED_TOOLS:
        sys.exit(f"grpcio-tools {PINNED_TOOLS} is needed, found {found}")
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, committed = contents(Path(folder)), contents(TARGET)
        if fresh == committed:
            return 0
        if arguments.check:
            for name in sorted(fresh.keys() | committed.keys()):
                if fresh.get(name) != committed.get(name):
                    sys.stderr.write(f"differs: {name}\n")
            sys.stderr.write("run `python clients/python/generate.py`\n")
            return 1
        for name in committed.keys() - fresh.keys():
            (TARGET / name).unlink()
        for name, data in fresh.items():
            path = TARGET / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
