#!/usr/bin/env bash
# Includes run downward only (docs/design.md, "Rooms"): each room may include itself, base and what its line names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# room : rooms it may include besides itself and what fuzzers and seeds share (fuzz/)
allowed() {
  echo fuzz
  case $1 in
    base) ;;
    proto) echo "base" ;;
    verbs) echo "proto/rdma base" ;;
    rdmap_binding) echo "verbs proto base" ;;
    ib_binding) echo "verbs proto base" ;;
    pcap) echo "proto/wire ib_binding/wire rdmap_binding/mpa rdmap_binding/ddp rdmap_binding/rdmap rdmap_binding/terminate_code.h base" ;;
    conformance) echo "pcap rdmap_binding verbs proto base" ;;
    tools) echo "conformance pcap rdmap_binding ib_binding verbs proto base" ;;
  esac
}

status=0
for room in base proto verbs rdmap_binding ib_binding pcap conformance tools; do
  while IFS=: read -r file line text; do
    target=$(sed -E 's/.*#include "([^"]+)".*/\1/' <<<"$text")
    ok=0
    for prefix in "$room" $(allowed "$room"); do
      [[ $target == "$prefix" || $target == "$prefix"/* ]] && ok=1
    done
    if ((!ok)); then
      echo "$file:$line: $room may not include $target"
      status=1
    fi
  done < <(grep -rnE '^#include "' --include='*.h' --include='*.cc' "$room" || true)
done
exit $status
