#!/usr/bin/env bash
# Generates internal/pb from the protocol files at the root of the repository.
#
# Needs buf (the copy of `make target/tools/.ready`, else the one on the PATH) and go; the two
# plugins are built as tools.mod pins them. `--check` writes nothing and exits 1 if the committed
# files differ.
set -euo pipefail
cd "$(dirname "$0")"

PACKAGE=callgate.invalid/clients/go/internal/pb

root=$(cd ../.. && pwd)
tools=$root/target/go-tools
buf=$root/target/tools/bin/buf
[ -x "$buf" ] || buf=$(command -v buf) || {
    echo "buf is missing: run \`make target/tools/.ready\` at the root" >&2
    exit 1
}
mkdir -p "$tools"
for plugin in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc; do
    go build -modfile=tools.mod -o "$tools/" "$plugin"
done

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
mapping=
for proto in "$root"/proto/callgate/v1/*.proto; do
    mapping+=", \"Mcallgate/v1/$(basename "$proto")=$PACKAGE\""
done
options="\"module=$PACKAGE\"$mapping"
PATH=$tools:$PATH "$buf" generate "$root/proto" --path "$root/proto/callgate" --template "{
  \"version\": \"v2\",
  \"plugins\": [
    {\"local\": \"protoc-gen-go\", \"out\": \"$fresh\", \"opt\": [$options]},
    {\"local\": \"protoc-gen-go-grpc\", \"out\": \"$fresh\", \"opt\": [$options]}
  ]
}"

if [ "${1:-}" = --check ]; then
    diff -r "$fresh" internal/pb >/dev/null || {
        echo "internal/pb is out of date: run clients/go/generate.sh" >&2
        exit 1
    }
    exit
fi
mkdir -p internal/pb
rm -f internal/pb/*.go
cp "$fresh"/*.go internal/pb/
