#!/usr/bin/env bash
# Prints the path of a program: of the one on PATH, or of Debian's, unpacked into .cache/tools, so that none is
# installed or started. Fails, with a line, if there is none.
set -euo pipefail
program=$1 # also the package
cd "$(dirname "$0")/.."
tool=$PWD/.cache/tools/$program
found() { PATH=$PATH:/usr/sbin:$tool/usr/bin:$tool/usr/sbin command -v "$program"; }
download() { rm -f "$program"_*.deb && apt-get -qq -o APT::Sandbox::User=root download "$program"; }
unpack() {
	mkdir -p "$tool"
	cd "$tool"
	{ download || { apt-get -qq update && download; }; } && dpkg -x "$program"_*.deb .
}
found || { unpack >&2 && found; } || { echo "there is no $program on PATH, and apt-get cannot download one" >&2; exit 1; }
