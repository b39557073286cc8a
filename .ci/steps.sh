#!/usr/bin/env bash
# Runs targets of the Makefile, then prints a table of their seconds, and of the processor's: steps.sh a b -- c + d e
# -- waits for all before it. + separates lanes that run side by side. In a lane, steps run one after
# the other, up to the first that fails. What comes after -- runs only if all before it passed.
set -uo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
touch "$work/table"
pids=() # of the lanes that run. Each is a process group of its own, so Ctrl-C does not reach it.
trap 'cat "$work"/lane-* 2>/dev/null; printf "\n%-24s %8s %8s\n" step seconds CPU; cat "$work/table"; printf "%-24s %8d\n" all $SECONDS; rm -rf "$work"' EXIT
trap 'for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null; done; exit 1' INT TERM
exec 3>&1

cpu() { # sets used: the processor's seconds of all that this shell has waited for
	local file=$work/times-$BASHPID
	times >"$file" # a pipe would be a shell of its own
	used=$(awk -F '[ms ]+' 'NR == 2 {print int($1 * 60 + $2 + $3 * 60 + $4)}' "$file")
}

lane() { # steps
	local step result started used before
	for step in "$@"; do
		started=$SECONDS
		cpu
		before=$used
		printf '\n== make %s\n' "$step"
		result=passed
		"${MAKE:-make}" --no-print-directory "$step" 3>&- || result=FAILED
		[ "$result" = passed ] || printf '\n== make %s FAILED\n' "$step" >&3 # at once, also when its lane's output comes later
		cpu
		printf '%-24s %8d %8d  %s\n' "$step" $((SECONDS - started)) $((used - before)) "$result" >>"$work/table"
		[ "$result" = passed ] || return 1
	done
}

stage() { # the stage's words
	local word steps=() logs=() failed=0
	pids=()
	if [[ " $* " != *" + "* ]]; then
		lane "$@" || exit 1
		return
	fi
	printf '\n== side by side: %s\n' "$*"
	for word in "$@" +; do
		if [ "$word" = + ]; then
			logs+=("$work/lane-${#logs[@]}")
			set -m
			lane "${steps[@]}" >"${logs[-1]}" 2>&1 </dev/null &
			set +m
			pids+=($!)
			steps=()
		else
			steps+=("$word")
		fi
	done
	for i in "${!pids[@]}"; do
		wait "${pids[i]}" || failed=1
		cat "${logs[i]}"
		rm "${logs[i]}"
	done
	pids=()
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
