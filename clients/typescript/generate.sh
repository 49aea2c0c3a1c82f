#!/usr/bin/env bash
# Makes src/gen (or the folder given) of the protos, with the pinned generator.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
out=$(realpath -m "${1:-src/gen}")
rm -rf "$out"
"${A11_BUF:-../../tools/node_modules/.bin/buf}" generate ../../proto --template buf.gen.yaml --output "$out"
