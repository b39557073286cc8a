#!/usr/bin/env bash
# Runs the tests that ask Grafana's own code: do the dashboards' annotations become marks?
# Installs the pinned npm packages into .cache/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
version=13.2.3
library=$PWD/.cache/tools/grafana-$version
if [ ! -e "$library/installed" ]; then
	command -v npm >/dev/null || { echo "test-grafana: @grafana/prometheus comes from npm, and there is no npm: install Node.js" >&2; exit 1; }
	echo "test-grafana: installing Grafana's packages $version into $library" >&2
	package=$library/node_modules/@grafana/prometheus
	mkdir -p "$library"
	echo '{"private": true}' >"$library/package.json"
	npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps --prefix "$library" "@grafana/data@$version" react@18.3.1 react-dom@18.3.1
	# Without its dependencies: they are an editor of 160 MB that no test loads.
	archive=$(cd "$library" && npm pack --silent "@grafana/prometheus@$version")
	mkdir -p "$package"
	tar -xzf "$library/$archive" -C "$package" --strip-components=1
	rm "$library/$archive"
	touch "$library/installed"
fi
GRAFANA_LIBRARY=$library go test -count=1 -v -run '^TestAnnotation' ./deploy/dashboards
