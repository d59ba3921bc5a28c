#!/usr/bin/env bash
# The shipped command holds no fault: none of the names that kbtp-mutant knows stands in its binary.
# usage: no_fault_names.sh KBTP KBTP-MUTANT
set -euo pipefail
names=$("$2" --list-faults --list-record-faults --list-unrepaired | cut -d' ' -f1)
[[ $(wc -l <<<"$names") -gt 20 ]] || { echo "kbtp-mutant lists too few faults"; exit 1; }
grep -aqwF -f <(echo "$names") "$2" || { echo "the names cannot be found this way: kbtp-mutant itself shows none"; exit 1; }
if found=$(grep -aowF -f <(echo "$names") "$1"); then
  echo "fault names in $1:"; echo "$found" | sort -u; exit 1
fi
