#!/usr/bin/env bash
# Checks the messages: their form, that old and new programs understand each other, and
# that the generated code is current. It changes nothing.
set -euo pipefail
cd "$(dirname "$0")"
../.ci/tools.sh buf protoc-gen-go protoc-gen-go-vtproto
PATH=$PWD/../.cache/tools:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "proto: $*" >&2; exit 1; }

buf lint || fail "the messages above are not in form (buf lint); correct them"
buf format --diff --exit-code || fail "the messages are not formatted; run: cd proto && ../.cache/tools/buf format -w"

# A topic keeps messages forever: what was written once must stay readable.
against=${PROTO_AGAINST:-}
for candidate in main origin/main HEAD; do
	[ -n "$against" ] && break
	! git rev-parse --quiet --verify "$candidate^{commit}" >/dev/null || against=$candidate
done
if [ -n "$against" ]; then
	git rev-parse --quiet --verify "$against^{commit}" >/dev/null || fail "PROTO_AGAINST is \"$against\": git knows no such commit"
	mkdir "$work/before"
	(cd .. && git archive "$against" proto) | tar -x -C "$work/before"
	buf breaking --against "$work/before/proto" || fail "the changes above break those who have messages of $against: add fields, never change or remove them (buf breaking)"
else
	echo "proto: not in a git repository: whether the messages still read what was written before is not checked" >&2
fi

mkdir "$work/generated"
./generate.sh "$work/generated"
diff -r --exclude='*.proto' pix "$work/generated/pix" >&2 || fail "the generated code is not current; run: make generate"
echo "proto: in form, compatible with ${against:-nothing}, generated code current"
