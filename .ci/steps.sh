#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, up to the first that fails, then prints
# a table of their times.
set -euo pipefail
cd "$(dirname "$0")/.."
table=
trap 'printf "\n%-24s %8s\n%s%-24s %8d\n" step seconds "$table" all $SECONDS' EXIT

for step in "$@"; do
	started=$SECONDS
	result=passed
	printf '\n== make %s\n' "$step"
	"${MAKE:-make}" --no-print-directory "$step" || result=FAILED
	table+=$(printf '%-24s %8d  %s' "$step" $((SECONDS - started)) "$result")$'\n'
	[ "$result" = passed ]
done
