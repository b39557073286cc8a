#!/usr/bin/env bash
# Keeps an archive in a real S3 server, reads statements in camt.053 back with public programs, validates them against the schema that
# one of them carries, and reads an archive with DuckDB and pandas. Skips, with a line, what cannot be installed. Odoo's addon without an
# Odoo: only its parser.
set -euo pipefail
cd "$(dirname "$0")/.."
if .ci/tools.sh versitygw; then
	export S3_SERVER=$PWD/.cache/tools/versitygw
	go test -count=1 -timeout 5m -v -run '^TestAnArchiveInABucket$' ./platform/archive
	go test -count=1 -timeout 5m -v -run '^TestTwoArchiversWaitForTheirBucket$' ./services/archiver
else
	echo "test-readers: the archive in S3 SKIPPED: versitygw cannot be installed; it needs the Go module proxy"
fi
programs=(camt053==0.0.23 bankstatementparser==0.0.29 ofxstatement-iso20022==0.8.1 lxml==6.1.3 duckdb==2.0.1 pandas==2.3.3 pyarrow==26.0.1)
addon=odoo-addon-account-statement-import-camt==19.0.1.0.0.8
tool=$PWD/.cache/tools/statement-readers-2 # another number for other programs
install() { "$tool/bin/pip" install --quiet --disable-pip-version-check "$@"; }
if [ ! -e "$tool/installed" ]; then
	if ! { python3 -m venv "$tool" && install "${programs[@]}" && install --no-deps "$addon" && touch "$tool/installed"; }; then
		echo "test-readers: SKIPPED: ${programs[*]} $addon cannot be installed; they need python3 with venv, and PyPI"
		exit 0
	fi
fi
export STATEMENT_READERS=$tool/bin/python
go test -count=1 -timeout 5m -v -run '^TestProgramsOfOthersReadAStatement$' ./services/producer/query
go test -count=1 -timeout 5m -v -run '^TestProgramsOfOthersReadAnArchive$' ./deploy/bootstrap
