#!/usr/bin/env bash
# Prints the path of a Chromium for the tests. In CI, as root on a Debian that has none, it
# is installed. Exits with 1 where there is none.
set -euo pipefail

find_it() {
    for name in "${A11_CHROMIUM:-}" chromium chromium-browser google-chrome; do
        [ -n "$name" ] && command -v "$name" && return
    done
    return 1
}

find_it && exit
if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y --no-install-recommends chromium >&2 ||
        { apt-get update >&2 && apt-get install -y --no-install-recommends chromium >&2; } || true
fi
find_it
