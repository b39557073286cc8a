#!/usr/bin/env bash
# Makes the Go code of the messages anew, with the pinned tools. With a folder as argument
# it is written there instead of here.
set -euo pipefail
cd "$(dirname "$0")"
../.ci/tools.sh buf protoc-gen-go protoc-gen-go-vtproto
PATH=$PWD/../.cache/tools:$PATH buf generate --output "${1:-.}"
