#!/usr/bin/env bash
# Tries a producer with requests that schemathesis makes from the API's description. Skips,
# with a line, if schemathesis cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.32.5
tool=$PWD/.cache/tools/schemathesis-$version
if [ ! -e "$tool/installed" ]; then
	if ! { python3 -m venv "$tool" && "$tool/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version" && touch "$tool/installed"; }; then
		echo "test-api: SKIPPED: schemathesis $version cannot be installed; it needs python3 with venv, and PyPI"
		exit 0
	fi
fi
SCHEMATHESIS=$tool/bin/schemathesis go test -count=1 -timeout 20m -v -run '^TestNoRequestBreaksTheAPI$' ./services/producer
