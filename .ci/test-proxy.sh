#!/usr/bin/env bash
# Tries event streams behind nginx. Skips, with two lines, if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
nginx=$(.ci/debian.sh nginx) || { echo "test-proxy: SKIPPED"; exit 0; }
PROXY_NGINX=$nginx go test -count=1 -timeout 5m -v -run '^TestEventsComeThroughNginx$' ./services/producer
