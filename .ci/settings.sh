#!/usr/bin/env bash
# Writes the settings that the programs print with --help into the README, between its
# two markers. With --check it changes nothing and fails when the README is behind.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=(producer clearing-engine bank-simulator bootstrap broker)

table() {
	for program in "${programs[@]}"; do
		printf '\n**%s**\n\n| variable | default | meaning |\n|---|---|---|\n' "$program"
		env -i "bin/$program" --help | awk -F '  +' '/^  [A-Z_]+  / {printf "| `%s` | %s | %s |\n", $2, $3 == "(empty)" ? "" : "`" $3 "`", $4}'
	done
	echo
}

new=$(awk -v table="$(table)" '
	/<!-- settings:end -->/ {skip = 0}
	!skip {print}
	/<!-- settings:begin/ {print table; skip = 1}' README.md)
if [ "${1:-}" = --check ]; then
	diff <(echo "$new") README.md >/dev/null || { echo "the README's settings are not what the programs print with --help: run 'make settings'" >&2; exit 1; }
else
	echo "$new" > README.md
fi
