#!/bin/sh
# Stands in for a look-up in a shop's system: prints one order's status.
set -eu

case "${1-}" in
  A-1001) echo "shipped on Monday, arrives Thursday" ;;
  A-1002) echo "waiting for payment" ;;
  A-404)
    echo "no order A-404: it was never placed, or is older than two years" >&2
    exit 1
    ;;
  A-*) echo "being packed" ;;
  *)
    echo "not an order number: they look like A-1001" >&2
    exit 2
    ;;
esac
