#!/usr/bin/env bash
# Asks Prometheus what every panel shows of a real system. Skips, with two lines, if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
prometheus=$(.ci/debian.sh prometheus) || { echo "test-dashboards: SKIPPED"; exit 0; }
.ci/tools.sh statsd_exporter
PATH=$PATH:$(dirname "$prometheus"):$PWD/.cache/tools LIQUIDA_NEEDS_PROMETHEUS=1 go test -count=1 -timeout 15m -v -run '^(TestRules|TestPanelsShowWhatIsTrue)$' ./deploy/grafana
