#!/bin/sh
# Arguments and tables that the programs of the digits have to refuse, with status 2 and a message that says what was expected.
# usage: refuses.sh DIGITS_EAGER NEWTON_CG DIGITS_CSV SCRATCH
set -u
digits_eager=$1 newton_cg=$2 data=$3 scratch=$4
failures=0
mkdir -p "$scratch"

# refuses MESSAGE PROGRAM ARGUMENT...: the message is a part of what is printed.
refuses() {
  message=$1
  shift
  "$@" >"$scratch/out" 2>&1
  status=$?
  if [ $status != 2 ] || ! grep -qF -e "$message" "$scratch/out"; then
    printf '%s\n  expected status 2 and: %s\n  got status %s and: %s\n' "$*" "$message" "$status" "$(head -c 500 "$scratch/out")"
    failures=$((failures + 1))
  fi
}

# refuses_table MESSAGE CHANGE: the table, of which sed changes a line.
refuses_table() {
  sed "$2" "$data" >"$scratch/digits.csv"
  refuses "$1" "$newton_cg" --data "$scratch/digits.csv"
}

refuses '--seeds: expected an integer from 1 to 1000000, got 3x' "$digits_eager" --seeds 3x
refuses '--epochs: expected an integer from 1 to 1000000, got 0' "$digits_eager" --epochs 0
refuses '--wanted: expected a number from 0 to 1, got much' "$digits_eager" --wanted much
refuses '--wanted: expected a number from 0 to 1, got nan' "$digits_eager" --wanted nan
refuses 'expected a value after --wanted' "$digits_eager" --wanted
refuses 'expected options, got 3' "$digits_eager" 3
refuses 'unknown option --lambda' "$digits_eager" --lambda 3
refuses '--lambda: expected a number from' "$newton_cg" --lambda 1e-3,
refuses '--lambda: expected a number from' "$newton_cg" --lambda 0
refuses '--lambda: expected a number from' "$newton_cg" --lambda nan
refuses '--iterations: expected an integer from 0 to 1000000000, got many' "$newton_cg" --iterations many
refuses '--descent-iterations: expected an integer from 0 to 1000000000, got -1' "$newton_cg" --descent-iterations -1
refuses 'none.csv: expected a file that can be read' "$digits_eager" --data "$scratch/none.csv"
refuses_table 'digits.csv:3: expected 64 brightnesses and a label 0 … 9' '3s/^[0-9]*,/dark,/'
refuses_table 'digits.csv:4: expected 64 brightnesses and a label 0 … 9' '4s/,[0-9]*,/,,/'
refuses_table 'digits.csv:5: expected 64 brightnesses and a label 0 … 9' '5s/$/x/'
refuses_table 'digits.csv:6: expected 64 brightnesses and a label 0 … 9' '6s/^[0-9]*,//'
refuses_table 'digits.csv:7: expected 64 brightnesses and a label 0 … 9' '7s/[0-9]*$/10/'

[ $failures = 0 ] || echo "$failures not refused as they have to be"
exit $((failures != 0))
