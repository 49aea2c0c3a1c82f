#!/usr/bin/env bash
# Makes src/gen of the protos, with the pinned generator; with --check, compares only.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
buf=${A11_BUF:-../../tools/node_modules/.bin/buf}

generate() {
    rm -rf "$1"
    "$buf" generate ../../proto --template buf.gen.yaml --output "$1"
}

if [ "${1:-}" = --check ]; then
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    generate "$fresh"
    diff -r "$fresh" src/gen >&2 || {
        echo 'clients/typescript/src/gen is not what the protos say: clients/typescript/generate.sh' >&2
        exit 1
    }
else
    generate src/gen
fi
