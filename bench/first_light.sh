#!/usr/bin/env bash
# kbtp bench load beside plain TCP, in turn within one run: 1 MiB, 16 outstanding, both sides spinning.
# Prints medians and their ratios; with --check it ends with 1 when CRC on is below 0.4 of TCP, or CRC off below 0.7.
# usage: bench/first_light.sh [--check] [BUILD-FOLDER] [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=0
[[ ${1:-} == --check ]] && { check=1; shift; }
build=${1:-build/release}
rounds=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rate() { sed -E 's/.*"gbytes_per_s":([0-9.]+).*/\1/' "$1"; }
median() { sort -n "$1" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

for ((i = 0; i < rounds; ++i)); do
  "$build/bench/bench_tcp" --runs 1 --wait spin > "$work/tcp"
  for crc in on off; do
    "$build/kbtp" bench load --size 1MiB --outstanding 16 --wait spin --crc $crc --runs 1 --seconds 1 \
      --json "$work/$crc" >/dev/null
  done
  for what in tcp on off; do rate "$work/$what" >> "$work/all.$what"; done
done
algorithm=$(sed -E 's/.*"congestion_control":"([a-z]+)".*/\1/' "$work/tcp")
tcp=$(median "$work/all.tcp") on=$(median "$work/all.on") off=$(median "$work/all.off")
awk -v tcp="$tcp" -v on="$on" -v off="$off" -v algorithm="$algorithm" -v rounds="$rounds" -v check=$check 'BEGIN {
  printf "1 MiB, 16 outstanding, spinning, %s, medians of %d rounds\n", algorithm, rounds
  printf "%-24s %6.2f GB/s\n", "plain TCP", tcp
  printf "%-24s %6.2f GB/s  %.2f of TCP\n", "kbtp load, CRC on", on, on / tcp
  printf "%-24s %6.2f GB/s  %.2f of TCP\n", "kbtp load, CRC off", off, off / tcp
  exit check && (on < 0.4 * tcp || off < 0.7 * tcp)
}'
