#!/usr/bin/env bash
# Runs targets of the Makefile, then prints a table of their times: steps.sh a b -- c + d e
# -- waits for all before it. + separates lanes that run side by side. In a lane, steps run one after
# the other, up to the first that fails. What comes after -- runs only if all before it passed.
set -uo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
touch "$work/table"
trap 'printf "\n%-24s %8s\n" step seconds; cat "$work/table"; printf "%-24s %8d\n" all $SECONDS; rm -rf "$work"' EXIT
trap 'trap - TERM; kill 0' INT TERM # lanes do not get Ctrl-C

lane() { # steps
	local step result started
	for step in "$@"; do
		started=$SECONDS
		printf '\n== make %s\n' "$step"
		result=passed
		"${MAKE:-make}" --no-print-directory "$step" || result=FAILED
		printf '%-24s %8d  %s\n' "$step" $((SECONDS - started)) "$result" >>"$work/table"
		[ "$result" = passed ] || return 1
	done
}

stage() { # the stage's words
	local word steps=() logs=() lanes=() failed=0
	if [[ " $* " != *" + "* ]]; then
		lane "$@" || exit 1
		return
	fi
	printf '\n== side by side: %s\n' "$*"
	for word in "$@" +; do
		if [ "$word" = + ]; then
			logs+=("$work/lane-${#logs[@]}")
			lane "${steps[@]}" >"${logs[-1]}" 2>&1 &
			lanes+=($!)
			steps=()
		else
			steps+=("$word")
		fi
	done
	for i in "${!lanes[@]}"; do
		wait "${lanes[i]}" || failed=1
		cat "${logs[i]}"
	done
	[ "$failed" = 0 ] || exit 1
}

words=()
for word in "$@" --; do
	if [ "$word" = -- ]; then
		stage "${words[@]}"
		words=()
	else
		words+=("$word")
	fi
done
