#!/usr/bin/env bash
# kbtp dissect beside tshark, in turn within one run, over a capture of RDMA Writes in segments of 1,400 octets,
# all CRCs right. Prints medians and their ratios, and what is due on two quiet cores: summary 20, text 5, JSON lines 20.
# With --check it ends with 1 when a ratio is below three quarters of that, which is what a check on a shared machine
# can tell (kbtp reads ahead on the second core, tshark needs one), or when kbtp takes 64 MiB of memory or more.
# usage: bench/dissect.sh [--check] [BUILD-FOLDER] [ROUNDS] [MEGABYTES]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=0
[[ ${1:-} == --check ]] && { check=1; shift; }
build=${1:-build/release}
rounds=${2:-5}
megabytes=${3:-200}
command -v tshark >/dev/null || { echo "bench/dissect.sh: tshark is needed to compare with" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure NAME COMMAND...: appends the seconds and KiB that it took to files of that name.
measure() {
  python3 - "$work/$1" "${@:2}" <<'PYTHON'
import os, subprocess, sys, time
name, command = sys.argv[1], sys.argv[2:]
started = time.monotonic()
child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
took = time.monotonic() - started
if status != 0:
    sys.exit(f"bench/dissect.sh: {' '.join(command)} failed")
with open(name + ".s", "a") as out:
    print(took, file=out)
with open(name + ".kib", "a") as out:
    print(usage.ru_maxrss, file=out)
PYTHON
}
median() { sort -n "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
most() { sort -n "$1" | tail -n 1; }
frames() { "$build/kbtp" dissect "$1" -o summary | awk 'NR == 1 {print $1}'; }

# tshark's JSON takes so long that a part has to do.
"$build/bench/make_capture" --size "${megabytes}000000" "$work/whole.pcap"
"$build/bench/make_capture" --size "$((megabytes / 4))000000" "$work/part.pcap"
whole=$(frames "$work/whole.pcap") part=$(frames "$work/part.pcap")

for ((i = 0; i < rounds; ++i)); do
  measure tshark tshark -r "$work/whole.pcap"
  measure tshark-json tshark -r "$work/part.pcap" -T json -J "iwarp_mpa iwarp_ddp_rdmap"
  for ((k = 0; k < 3; ++k)); do
    measure summary "$build/kbtp" dissect "$work/whole.pcap" -o summary
    measure text "$build/kbtp" dissect "$work/whole.pcap"
    measure json "$build/kbtp" dissect "$work/part.pcap" -o json
  done
done

failed=0
# row TITLE FRAMES OURS THEIRS DUE
row() {
  awk -v title="$1" -v frames="$2" -v ours="$(median "$work/$3.s")" -v theirs="$(median "$work/$4.s")" -v due="$5" \
    -v kib="$(most "$work/$3.kib")" -v their_kib="$(most "$work/$4.kib")" 'BEGIN {
    ratio = theirs / ours
    printf "%-34s %9d %10d %8.1f %6d %8.1f %8.1f\n",
      title, frames / theirs, frames / ours, ratio, due, their_kib / 1024, kib / 1024
    exit ratio < 0.75 * due || kib >= 65536
  }' || failed=1
}
printf '%d and %d packets, medians of %d rounds; packets a second, and MiB of memory\n' "$whole" "$part" "$rounds"
printf '%-34s %9s %10s %8s %6s %8s %8s\n' '' tshark kbtp ratio due 'tshark' 'kbtp'
row 'summary, every CRC checked' "$whole" summary tshark 20
row 'text, a line a message' "$whole" text tshark 5
row 'JSON lines (tshark: iWARP alone)' "$part" json tshark-json 20
exit $((check && failed))
