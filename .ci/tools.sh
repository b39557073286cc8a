#!/usr/bin/env bash
# Installs the pinned development tools into .cache/tools, from package registries alone;
# one that is there in its version is skipped. Without arguments all, else the named ones.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.cache/tools
mkdir -p "$tools"

versions() {
	cat <<-'END'
		buf                    1.75.0
		golangci-lint          v2.15.0
		kustomize              v5.8.2
		protoc-gen-go          v1.36.12
		protoc-gen-go-vtproto  v0.6.0
		statsd_exporter        v0.31.0
		versitygw              v1.8.0
	END
}

go_install() { # no workspace: a tool's own dependencies are its own
	GOWORK=off GOFLAGS=-mod=mod GOBIN=$tools nice go install "$1"
}

needs_npm() { # name version
	command -v npm >/dev/null || { echo "tools: $1 comes from npm, and there is no npm: install Node.js, or put $1 $2 at $tools/$1 and touch $tools/.$1@$2" >&2; exit 1; }
}

install_tool() { # name version
	case $1 in
	buf)
		needs_npm "$@"
		npm install --loglevel=error --no-audit --no-fund --prefix "$tools/npm" "@bufbuild/buf@$2"
		ln -sf npm/node_modules/.bin/buf "$tools/buf"
		;;
	golangci-lint) go_install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$2" ;;
	kustomize) go_install "sigs.k8s.io/kustomize/kustomize/v5@$2" ;;
	protoc-gen-go) go_install "google.golang.org/protobuf/cmd/protoc-gen-go@$2" ;;
	protoc-gen-go-vtproto) go_install "github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@$2" ;;
	statsd_exporter) go_install "github.com/prometheus/statsd_exporter@$2" ;;
	versitygw) go_install "github.com/versity/versitygw/cmd/versitygw@$2" ;;
	esac
}

[ $# -gt 0 ] || set -- $(versions | awk '{print $1}')
for name in "$@"; do
	version=$(versions | awk -v name="$name" '$1 == name {print $2}')
	[ -n "$version" ] || { echo "tools: there is no tool \"$name\"; the tools are:" >&2; versions >&2; exit 2; }
	stamp=$tools/.$name@$version
	[ -e "$stamp" ] && [ -x "$tools/$name" ] && continue
	echo "tools: installing $name $version into $tools" >&2
	install_tool "$name" "$version"
	rm -f "$tools/.$name@"*
	touch "$stamp"
done
