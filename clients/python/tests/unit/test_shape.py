"""What may import what, and what the package promises about itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import callgate

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "callgate"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_gen" not in path.parts)


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_wire_knows_protobuf_and_transport(path: Path) -> None:
    if "_wire" in path.parts:
        return
    for name in imports_of(path):
        assert not name.startswith(("grpc", "google")), name
        assert "_gen" not in name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_generated_modules_import_each_other_inside_the_package() -> None:
    for path in (PACKAGE / "_gen").rglob("*_pb2*.py"):
        assert not [name for name in imports_of(path) if name.startswith("callgate")], path


def test_everything_public_is_named_once_and_documented() -> None:
    assert len(set(callgate.__all__)) == len(callgate.__all__)
    for name in callgate.__all__:
        assert getattr(callgate, name).__doc__ or name in {"__version__", "ContentPart"}


def test_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_nothing_but_the_standard_logger_is_used() -> None:
    for path in MODULES:
        text = path.read_text()
        assert "print(" not in text
        assert "basicConfig" not in text


def test_requirements_are_locked_and_name_no_host() -> None:
    for name in ("requirements-dev.txt", "requirements-newest.txt"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        pinned = [line for line in text.splitlines() if "==" in line]
        assert pinned
        assert text.count("--hash=sha256:") >= len(pinned)


def test_code_in_the_readme_is_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_first_tool_of_the_readme_has_at_most_ten_lines() -> None:
    first = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first is not None
    assert len([line for line in first.group(1).splitlines() if line]) <= 10
