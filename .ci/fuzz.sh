#!/usr/bin/env bash
# Tries so many inputs on each fuzz target of some modules: fuzz.sh INPUTS MODULE...
# An input that breaks a decoder stays in the testdata of its package.
set -euo pipefail
cd "$(dirname "$0")/.."
inputs=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for folder in $(grep -rlE '^func Fuzz' --include='*_test.go' "$@" | xargs -n 1 dirname | sort -u); do
	go test -c -fuzz . -o "$work/fuzz" "./$folder" # once for all targets of the package
	found=$(go env GOCACHE)/fuzz/$(go list "./$folder") # where go test -fuzz keeps inputs that reached more code
	for target in $(grep -hoE '^func Fuzz[A-Za-z]+' "$folder"/*_test.go | cut -d ' ' -f 2); do
		echo "fuzz $folder $target"
		(cd "$folder" && "$work/fuzz" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${inputs}x" -test.fuzzcachedir "$found")
	done
done
