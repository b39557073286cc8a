#!/usr/bin/env bash
# Installs Chromium for the test of the control room, from Debian or Ubuntu's own packages, unless a
# browser is there. Elsewhere it says what to install: a test in no browser would prove nothing.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
	if command -v "$name" >/dev/null; then exit 0; fi
done
if ! command -v apt-get >/dev/null; then
	echo 'chromium: make test-room needs Chromium, and this system has no apt-get: install chromium, and put it on PATH' >&2
	exit 1
fi
root=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null && sudo -n true 2>/dev/null || { echo 'chromium: make test-room needs Chromium: run apt-get install chromium as root' >&2; exit 1; }
	root=(sudo -n)
fi
echo 'chromium: installing with apt-get' >&2
install() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium >/dev/null; }
install || { "${root[@]}" apt-get update >/dev/null && install; }
command -v chromium >/dev/null || { echo 'chromium: apt-get installed no chromium on PATH' >&2; exit 1; }
