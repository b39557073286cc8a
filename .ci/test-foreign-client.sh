#!/usr/bin/env bash
# Pays on a real stack with a client that a third-party tool generates from the API's
# description. Skips, with a line, if the tool cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.29.1
tool=$PWD/.cache/tools/openapi-python-client-$version
if [ ! -e "$tool/installed" ]; then
	if ! { python3 -m venv "$tool" && "$tool/bin/pip" install --quiet --disable-pip-version-check "openapi-python-client==$version" && touch "$tool/installed"; }; then
		echo "test-foreign-client: SKIPPED: openapi-python-client $version cannot be installed; it needs python3 with venv, and PyPI"
		exit 0
	fi
fi
FOREIGN_CLIENT_GENERATOR=$tool/bin/openapi-python-client go test -count=1 -timeout 20m -v -run '^TestAForeignClientIsGeneratedAndPays$' ./loadtest/e2e
