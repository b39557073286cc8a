#!/usr/bin/env bash
# Runs the commands of the documents as they stand: what is fenced as sh, document by document, each in one
# shell, on the stack of make up. It works in a copy of the tree, with a network of its own, where the fixed
# ports are free. A command must exit with 0, and curl must be answered with 2xx. A comment before a
# block says what is otherwise, and why; COMMAND is what the command begins with:
#   <!-- ci: skip document: REASON -->       anywhere in it
#   <!-- ci: skip all: REASON -->            <!-- ci: skip COMMAND: REASON -->
#   <!-- ci: needs NAME, NAME -->            Debian's, installed where they are missing; else the block is skipped
#   <!-- ci: exit 1 COMMAND: REASON -->      <!-- ci: again COMMAND: REASON -->    it may take some seconds to succeed
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" != --inside ]; then
	alone=(unshare --net --mount --pid --fork --kill-child --mount-proc) # whatever is left running ends with it
	command -v unshare >/dev/null && command -v ip >/dev/null && "${alone[@]}" true 2>/dev/null || {
		echo 'documents: SKIPPED: a network of its own needs root on Linux, with unshare and ip'
		exit 0
	}
	install() { DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends kcat protobuf-compiler >/dev/null; }
	type kcat protoc >/dev/null 2>&1 || install || { apt-get -qq update && install; } || echo 'documents: there is no kcat and protoc, and apt-get cannot install them' >&2
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	git ls-files -z | xargs -0 cp --parents -t "$work"
	ln -s "$PWD/.cache" "$work/.cache"
	make --no-print-directory -C "$work" build tigerbeetle # they may need the network
	"${alone[@]}" bash -c 'ip link set lo up && exec "$0" --inside "$@"' "$work/.ci/documents.sh" "$@"
	exit
fi
shift

# commands prints a document's commands as a script of calls of run.
commands() { # document
	local line number=0 inside='' marks='' command='' begins
	while IFS= read -r line; do
		number=$((number + 1))
		if [ -z "$inside" ]; then
			case $line in
			'<!-- ci: '*' -->') line=${line#<!-- ci: } && marks+="${line% -->}"$'\n' ;;
			'```sh') inside=yes ;;
			?*) marks='' ;;
			esac
		elif [ "$line" = '```' ]; then
			[ -z "$command" ] || { echo "$1: line $begins: the command does not end" >&2; return 1; }
			inside='' marks=''
		else
			[ -n "$command" ] || begins=$number
			command+=$line$'\n'
			bash -n <<<"$command" 2>/dev/null && [[ $line != *'|' && $line != *\\ ]] || continue
			[ -z "$(sed 's/^[[:space:]]*#.*//' <<<"$command" | tr -d '[:space:]')" ] || printf 'run %q %q %q %q\n' "$1" "$begins" "${marks:-none}" "$command"
			command=''
		fi
	done <"$1"
}
export -f commands

run() { # document line marks command
	local mark expected=0 tries=1 status
	while IFS= read -r mark; do
		local rule=${mark%%: *}
		case $rule in
		'needs '*) rule=${rule#needs } && type ${rule//,/} >/dev/null 2>&1 || { echo "-- $1:$2: skipped: it needs $rule"; return; } ;;
		'skip all') echo "-- $1:$2: skipped: ${mark#*: }"; return ;;
		'skip '*) [[ $4 != "${rule#skip }"* ]] || { echo "-- $1:$2: skipped: ${mark#*: }"; return; } ;;
		'exit '*) rule=${rule#exit } && [[ $4 != "${rule#* }"* ]] || expected=${rule%% *} ;;
		'again '*) [[ $4 != "${rule#again }"* ]] || tries=20 ;;
		esac
	done <<<"$3"
	printf '++ %s:%s: %s' "$1" "$2" "$4"
	while status=0; eval "$4" </dev/null || status=$?; [ "$status" != "$expected" ] && [ $((tries -= 1)) -gt 0 ]; do sleep 0.5; done
	[ "$status" = "$expected" ] && return
	echo "documents: $1:$2: exit $status, want $expected: $4" >&2
	failed=1
}

trap 'make --no-print-directory down clean || true' EXIT # a document may have ended with them
failed=0 documents=("$@")
[ ${#documents[@]} -gt 0 ] || mapfile -t documents < <(grep -lx '```sh' README.md docs/*.md deploy/*.md)
for document in "${documents[@]}"; do
	if grep '^<!-- ci: skip document: ' "$document" | sed "s#^<!-- ci: #-- $document: #; s# -->\$##" | grep .; then continue; fi
	script=$(commands "$document")
	# Not grep -q: it would end the first grep early, and pipefail would take that for an error.
	if grep -v 'skip all' <<<"$script" | grep ^run >/dev/null; then make --no-print-directory up; fi
	( # each document in a shell of its own
		set +eu
		set -o pipefail
		failed=0
		curl() { command curl --fail-with-body "$@"; }
		eval "$script"
		exit $failed
	) || failed=1
done
[ $failed = 0 ] && echo "documents: every command of ${#documents[@]} documents does what it says, or says why it is not run"
exit $failed
