#!/usr/bin/env bash
# Checks that what the documents name is there: links and their headings, files, targets of
# make, tests, settings and metrics.
set -euo pipefail
cd "$(dirname "$0")/.."
documents=$(git ls-files '*.md')
failed=0
miss() { echo "$1: $2" >&2; failed=1; }

anchors() { # of a document's headings, as GitHub makes them
	sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed "s/[^a-z0-9 _-]//g; s/ /-/g"
}

for document in $documents; do
	folder=$(dirname "$document")
	for link in $(grep -oE '\]\([^)]+\)' "$document" | sed 's/^](//; s/)$//'); do
		case $link in http*) continue ;; esac
		file=${link%%#*}
		target=$([ -n "$file" ] && echo "$folder/$file" || echo "$document")
		[ -e "$target" ] || { miss "$document" "the link $link leads nowhere"; continue; }
		case $link in *'#'*) anchors "$target" | grep -x -- "${link#*#}" >/dev/null || miss "$document" "the link $link names no heading" ;; esac
	done
	code=$(grep -oE '`[^`]+`' "$document" | tr -d '`' || true)
	for path in $(grep -oE '^[A-Za-z0-9_./-]+\.(go|md|sh|yml|yaml|proto|json|sql|svg|py)$' <<<"$code" | grep / || true); do
		case $path in .stack/* | /*) continue ;; esac # made while it runs
		top=${path%%/*}                               # a folder that is not ours is in an image or in another project
		[ -d "$top" ] || [ -d "$folder/$top" ] || [ -d "services/clearing-engine/$top" ] || [ -d "loadtest/$top" ] || continue
		[ -e "$path" ] || [ -e "$folder/$path" ] || [ -e "services/clearing-engine/$path" ] || [ -e "loadtest/$path" ] ||
			miss "$document" "there is no file $path"
	done
	for target in $({ echo "$code"; cat "$document"; } | grep -oE '^make [a-z][a-z-]+' | sort -u | cut -d ' ' -f 2); do
		grep -q "^$target:" Makefile || miss "$document" "there is no target make $target"
	done
	for test in $(grep -oE '\bTest[A-Z][A-Za-z0-9]+' "$document" | sort -u); do
		grep -rqE "^func $test\b" --include='*_test.go' . || miss "$document" "there is no test $test"
	done
	for metric in $(grep -oE '\bpix_[a-z_]+[a-z]' <<<"$code" | sort -u); do
		grep -rq "\"$metric\"" --include='*.go' . || miss "$document" "there is no metric $metric"
	done
	for setting in $(grep -oE '^[A-Z]+_[A-Z_]+[A-Z]$' <<<"$code" | sort -u); do
		grep -rqE "\b$setting\b" --include='*.go' --include='*.yml' --include='*.sh' --include=Makefile . ||
			miss "$document" "there is no setting $setting"
	done
done
exit $failed
