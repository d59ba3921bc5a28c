#!/usr/bin/env bash
# Checks the models of the free-block ring exhaustively with SPIN: the repaired rules hold, and each un-repaired variant
# breaks just the property that is named beside it. See docs/ring-model.md.
#
#   check.sh              all rows
#   check.sh NAME...      those rows
#   check.sh --trail NAME one failing row, and the steps that lead there
#
# Ends with 0 when every row came out as expected, 1 when not, 2 for a wrong call, 77 (skipped) without spin or gcc.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

MEMORY_MB=3000
DEPTH=3000000

# name | model | switches | what is asked | expected
#   all       every property and deadlock, depth first, the whole state space
#   safety    the same without deadlock
#   P_...     that property alone, breadth first: the shortest counterexample
#   deadlock  only that somebody who waits is never left so when nothing moves any more
#   served    all properties, and LTL under weak fairness: process 1's allocation is always served in the end
ROWS='
shared-1-block      |shared|-DF=1 -DN=2 -DW=2 -DQ=1 -DDEADLINE                   |all      |holds
shared-2-blocks     |shared|-DF=2 -DN=2 -DW=3 -DQ=2                              |all      |holds
shared-deadline     |shared|-DF=2 -DN=2 -DW=2 -DQ=2 -DDEADLINE                   |all      |holds
shared-3-blocks     |shared|-DF=3 -DN=4 -DW=2 -DQ=2 -DDEADLINE                   |all      |holds
shared-no-mutex     |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DSPLIT                      |all      |holds
shared-loads        |shared|-DF=2 -DN=2 -DW=2 -DQ=1 -DPINS=1 -DL=1               |all      |holds
shared-loads-unlined|shared|-DF=2 -DN=2 -DW=1 -DQ=1 -DPINS=1 -DL=1 -DNO_LINE     |all      |holds
shared-2-loaders    |shared|-DF=2 -DN=2 -DW=1 -DQ=1 -DPINS=1 -DL=2 -DSCRUB       |all      |holds
shared-served       |shared|-DF=2 -DN=2 -DW=3 -DQ=2                              |served   |holds
shared-dl-served    |shared|-DF=2 -DN=2 -DW=2 -DQ=2 -DDEADLINE                   |served   |holds
shared-loads-served |shared|-DF=2 -DN=2 -DW=1 -DQ=1 -DPINS=1 -DL=1 -DSCRUB       |served   |holds
direct              |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=2                       |all      |holds
direct-1-credit     |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=1 -DEXECUTED -DPROMPT   |all      |holds
direct-words        |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=2 -DWORDS -DPROMPT      |all      |holds
direct-executed     |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=2 -DEXECUTED            |all      |holds
direct-stale        |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=2 -DSTALE -DPROMPT      |all      |holds
direct-reattached   |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=1 -DREATTACHED          |all      |holds
direct-over-quota   |direct|-DM=12 -DF=1 -DN=2 -DA=2 -DC=2 -DOVER_QUOTA               |safety   |holds
direct-served       |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=2                       |served   |holds
direct-ex-served    |direct|-DM=12 -DF=2 -DN=2 -DA=2 -DC=2 -DEXECUTED -DPROMPT   |served   |holds
E3-literal-slot     |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLITERAL                    |P_SLOT   |slot_free_for_ticket
E3-literal-starves  |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLITERAL                    |deadlock |deadlock
E3-split-slot       |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLITERAL -DSPLIT            |P_SLOT   |slot_free_for_ticket
E3-split-lost       |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLITERAL -DSPLIT            |P_LOST   |no_block_lost
E3-split-starves    |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLITERAL -DSPLIT            |deadlock |deadlock
E5-no-pin           |shared|-DF=2 -DN=2 -DW=2 -DQ=1 -DPINS=1 -DL=1 -DNO_PIN      |P_DATA   |load_sees_own_store
E5-no-reserve       |shared|-DF=2 -DN=2 -DW=2 -DQ=2 -DPINS=1 -DL=1 -DSCRUB       |deadlock |deadlock
E5-claim-torn       |shared|-DF=2 -DN=2 -DW=2 -DQ=1 -DPINS=1 -DL=1 -DCLAIM_TORN   |P_TWICE  |no_block_twice
pin-no-recheck      |shared|-DF=2 -DN=2 -DW=2 -DQ=1 -DPINS=1 -DL=1 -DNO_RECHECK  |P_DATA   |load_sees_own_store
E6-free-waits       |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=1 -DFREE_WAITS -DPROMPT |deadlock |deadlock
E9-stale-accepted   |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DSTALE -DNO_SEQUENCE -DPROMPT|P_STALE  |stale_bind_refused
E9-honest-refused   |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DSTALE -DNO_SEQUENCE -DPROMPT|P_HONEST |honest_bind_accepted
E9-wrong-block      |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DSTALE -DNO_SEQUENCE -DPROMPT|P_TICKET |block_of_own_ticket
wake-lost-by-free   |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLOSE_FREE_WAKE             |P_WAKE   |no_lost_wakeup
wake-lost-free-stuck|shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLOSE_FREE_WAKE             |deadlock |deadlock
wake-lost-by-alloc  |shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLOSE_ALLOC_WAKE            |P_WAKE   |no_lost_wakeup
wake-lost-alloc-stuck|shared|-DF=2 -DN=2 -DW=3 -DQ=2 -DLOSE_ALLOC_WAKE           |deadlock |deadlock
no-wake-at-all      |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DNO_WAKE -DPROMPT    |P_WAKE   |no_lost_wakeup
no-confirm-read     |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DWORDS -DPROMPT -DNO_CONFIRM|P_WRITE  |write_in_own_block
no-revoke           |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DNO_REVOKE           |P_WRITE  |write_in_own_block
late-refusal        |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=2 -DLATE_REFUSAL        |P_DATA   |load_sees_own_store
no-credit-for-BIND  |direct|-DM=16 -DF=2 -DN=2 -DA=2 -DC=1 -DEXECUTED -DPROMPT -DALL_CREDITS|deadlock |deadlock
'

for tool in spin gcc; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed (apt-get install $tool)"; exit 77; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check MODEL SWITCHES ASKED: builds and runs pan in its own folder; the result is in $got, $states, $depth.
check() {
  local model=$1 switches=$2 asked=$3 promela compile run
  case $asked in
    all) promela="-DALL" compile="-DSAFETY -DCOLLAPSE" run="-w23" ;;
    safety) promela="-DALL" compile="-DSAFETY -DCOLLAPSE" run="-w22 -E" ;;
    P_*) promela="-D$asked" compile="-DSAFETY -DBFS" run="-w20" ;;
    deadlock) promela="" compile="-DSAFETY -DBFS" run="-w20" ;;
    served) promela="-DALL -DSERVED" compile="-DNFAIR=3 -DCOLLAPSE" run="-a -f -w22" ;;
  esac
  # An assertion is looked for past states that are dead ends already.
  [[ $asked == P_* ]] && run+=" -E"
  rm -rf "$work/run" && mkdir "$work/run" && cd "$work/run"
  cp "$here"/*.pml .
  # shellcheck disable=SC2086
  spin $switches $promela -a "$model.pml" >spin.out 2>&1 || { cat spin.out >&2; got="spin failed"; return; }
  # shellcheck disable=SC2086
  gcc -O2 -w -DMEMLIM=$MEMORY_MB -DVECTORSZ=512 $compile -o pan pan.c || { got="gcc failed"; return; }
  # shellcheck disable=SC2086
  ./pan -m$DEPTH $run >pan.out 2>&1 || true
  states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' pan.out | head -1)
  depth=$(sed -n 's/.*depth reached \([0-9]*\),.*/\1/p' pan.out | head -1)
  if grep -q '^pan:[0-9]*: assertion violated' pan.out; then
    got=$(sed -n 's/^pan:[0-9]*: assertion violated \([a-z_]*\).*/\1/p' pan.out | head -1)
  elif grep -q '^pan:[0-9]*: invalid end state' pan.out; then
    got=deadlock
  elif grep -q '^pan:[0-9]*: acceptance cycle' pan.out; then
    got=starvation
  elif grep -qE 'max search depth too small|reached -DMEMLIM|Search not completed|aborted' pan.out || ! grep -q 'errors: 0' pan.out; then
    got=incomplete
  else
    got=holds
  fi
}

# Of SPIN's replay: each change of a global variable and each store into a slot, with its step, process and statement;
# then the slots and where everybody stands.
tell_trail() {
  awk '
    /^#processes/ { end = 1 }
    end && /slot\[|proc +[0-9]/ { gsub(/[ \t]+/, " "); print "at the end:" ($1 ~ /:$/ ? substr($0, index($0, ":") + 1) : $0) }
    end { next }
    /proc +[0-9]+ / {
      step = $0; sub(/ *\(state [0-9]+\)/, "", step); gsub(/[ \t]+/, " ", step)
      if (step !~ /:init:/ && step ~ /\[slot\[[^=]*\.(block|sequence) = /) printf "%-20s %s\n", "store", step
    }
    /^\t\t[a-z_]+(\[[0-9]\])? = / {
      if ($1 != "k" && $1 != "places" && value[$1] != $3 && step !~ /:init:/) printf "%-20s %s\n", $1 " = " $3, step
      value[$1] = $3
    }'
}

if [[ ${1:-} == --trail ]]; then
  trail=1
  shift
  (($# == 1)) || { echo "check.sh: --trail wants one row" >&2; exit 2; }
fi
for name in "$@"; do
  grep -qE "^$name *\|" <<<"$ROWS" || { echo "check.sh: there is no row '$name'" >&2; exit 2; }
done

printf '%-22s %-7s %-9s %10s %8s  %-21s %-21s %s\n' variant model asked states depth expected got seconds
failed=0
while IFS='|' read -r name model switches asked expected; do
  name=${name// /} asked=${asked// /}
  [[ -n $name ]] || continue
  (($# == 0)) || [[ " $* " == *" $name "* ]] || continue
  started=${EPOCHREALTIME/./}
  states=- depth=- got=-
  check "$model" "$switches" "$asked"
  verdict=""
  [[ $got == "$expected" ]] || { failed=1; verdict="  <-- not as expected"; }
  printf '%-22s %-7s %-9s %10s %8s  %-21s %-21s %5.1f%s\n' "$name" "$model" "$asked" "${states:--}" "${depth:--}" \
    "$expected" "$got" "$(((${EPOCHREALTIME/./} - started) / 100000))e-1" "$verdict"
  if [[ -n ${trail:-} && -f "$work/run/$model.pml.trail" ]]; then
    promela=""
    [[ $asked == P_* ]] && promela="-D$asked"
    # shellcheck disable=SC2086
    (cd "$work/run" && spin -t -p -g $switches $promela "$model.pml") | tell_trail
  fi
done <<<"$ROWS"
exit $failed
