#!/usr/bin/env bash
# Plants each bug of loadtest/mutants in a copy of the repository, and runs the test that must catch it there.
# Without a bug the same tests must pass. mutants.sh [part of a name]; mutants.sh --check only looks whether all apply.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1-}" = --check ] && check=yes || { check=; name=${1-}; }
bugs=("$PWD"/loadtest/mutants/*"${name-}"*.patch)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy"
judge() { # FOLDER TEST
	local arguments=()
	[ "$1" = loadtest/simulation ] && arguments=(-args -seeds "${WORLDS:-3}" -scenario-seeds "${WORLDS:-3}" -seed "${SEED:-1}")
	(cd "$copy" && go test -count=1 -vet=off -timeout 20m -tags synctests -run "^$2\$" "./$1" "${arguments[@]}") >"$copy/output" 2>&1
}
finding() { # what a judge says, or else the first line with which the test fails
	grep -m 1 -oE 'broken law: .*|WRONG .*|^panic: .*|[0-9]+ failures: .*' "$copy/output" || grep -m 1 -oE '[a-z_]+_test\.go:[0-9]+: .*' "$copy/output" || echo 'NO VERDICT'
}
if [ -z "$check" ]; then
	sed -n 's/^Judge: //p' "${bugs[@]}" | sort -u | while read -r folder test; do
		judge "$folder" "$test" || { cat "$copy/output"; echo "without a bug $test fails: it proves nothing" >&2; exit 1; }
	done
	printf '| harm | planted bug | judge | first finding |\n|---|---|---|---|\n'
fi
missed=0
for bug in "${bugs[@]}"; do
	of() { sed -n "s/^$1: //p" "$bug"; }
	git -C "$copy" apply "$bug" || { echo "$bug does not apply: the code has changed, so plant the bug anew" >&2; missed=1; continue; }
	if [ -z "$check" ]; then
		read -r folder test <<<"$(of Judge)"
		judge "$folder" "$test" && says='MISSED' || says=$(finding)
		case $says in MISSED | 'NO VERDICT') missed=1 ;; esac
		printf '| %s | %s | `%s` | %s |\n' "$(of Harm)" "$(of Bug)" "$test" "$(tr '|' / <<<"${says:0:150}")"
	fi
	git -C "$copy" apply -R "$bug"
done
exit $missed
