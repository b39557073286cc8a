#!/usr/bin/env bash
# Tries the receiving bank of the examples, in Python, against docs/participant.md. Skips, with a
# line, if its Kafka client cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.16.1
tool=$PWD/.cache/tools/confluent-kafka-$version
if [ ! -e "$tool/installed" ]; then
	if ! { python3 -m venv "$tool" && "$tool/bin/pip" install --quiet --disable-pip-version-check "confluent-kafka==$version" && touch "$tool/installed"; }; then
		echo "test-python-bank: SKIPPED: confluent-kafka $version cannot be installed; it needs python3 with venv, and PyPI"
		exit 0
	fi
fi
PYTHON_WITH_KAFKA=$tool/bin/python go test -count=1 -timeout 5m -v -run '^TestThePythonBankConforms$' ./loadtest/conform
