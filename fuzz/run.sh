#!/bin/sh
# Builds preset `fuzz` and runs each fuzzer for SECONDS from its committed corpus, which stays as it is.
# Fails on a finding; prints the lines of the decoders that a fuzzer and its corpus reached.
#
#   fuzz/run.sh SECONDS [NAME...]        NAME: mpa ddp rdmap engine kbtp ib esp segments trace; all of them without one
#
# KBTP_FUZZ_BUILD names another build folder, KBTP_FUZZ_JOBS how many compilers run at once.
set -eu

usage() {
  echo "usage: fuzz/run.sh SECONDS [NAME...]   (NAME: mpa ddp rdmap engine kbtp ib esp segments trace)" >&2
  exit 2
}

cd "$(dirname "$0")/.."
[ $# -ge 1 ] || usage
seconds=$1
shift
case $seconds in '' | *[!0-9]*) usage ;; esac
[ $# -gt 0 ] || set -- mpa ddp rdmap engine kbtp ib esp segments trace

build=${KBTP_FUZZ_BUILD:-build/fuzz}
targets=
for name; do
  [ -d "fuzz/corpus/$name" ] || { echo "fuzz/run.sh: no corpus fuzz/corpus/$name" >&2; exit 2; }
  targets="$targets fuzz_$name"
done
cmake --preset fuzz -B "$build" >/dev/null
# shellcheck disable=SC2086  # one word a target
ninja -C "$build" -j "${KBTP_FUZZ_JOBS:-2}" $targets

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

for name; do
  program=$(find "$build" -type f -name "fuzz_$name" -perm -u+x | head -n 1)
  mkdir -p "$work/$name/new" "$work/$name/findings"
  echo "== fuzz_$name: $seconds s, $(find "fuzz/corpus/$name" -type f | wc -l) seeds"
  # New inputs go to the first folder named; the second is only read.
  if LLVM_PROFILE_FILE="$work/$name/profile.raw" "$program" -max_total_time="$seconds" -timeout=10 \
      -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 -artifact_prefix="$work/$name/findings/" \
      "$work/$name/new" "fuzz/corpus/$name" >"$work/$name/log" 2>&1; then
    grep -E '^(stat::number_of_executed_units|Done )' "$work/$name/log" || true
  else
    failed=1
    tail -n 60 "$work/$name/log"
    keep="$build/findings-$name"
    mkdir -p "$keep"
    cp "$work/$name/findings/"* "$keep/" 2>/dev/null || true
    echo "fuzz_$name: a FINDING; inputs in $keep"
    continue
  fi
  llvm-profdata-19 merge -sparse "$work/$name/profile.raw" -o "$work/$name/profile"
  # The room of the decoder, without tests, fuzzers and what it merely uses.
  case $name in
    kbtp) room=proto/wire ;;
    ib) room=ib_binding/wire ;;
    esp | segments | trace) room=pcap ;;
    engine) room=rdmap_binding/rnic ;;
    *) room=rdmap_binding/$name ;;
  esac
  sources=$(find "$room" -name '*.cc' ! -name '*_test.cc' ! -name 'fuzz_*.cc' ! -name 'live_*.cc' | sort)
  echo "decoder lines reached (file, lines, missed, part):"
  # shellcheck disable=SC2086  # one word a file
  llvm-cov-19 report "$program" -instr-profile="$work/$name/profile" -show-functions=false $sources |
    awk '/\.cc |^TOTAL/ { printf "  %-28s %6s %6s %8s\n", $1, $8, $9, $10 }'
done

exit $failed
