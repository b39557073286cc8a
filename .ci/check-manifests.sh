#!/usr/bin/env bash
# Checks the manifests for Kubernetes, with the ledger in the cluster and with one elsewhere: against
# the schemas of a Kubernetes version, strictly, and against each other and the programs.
# Needs no cluster, but python3 with venv and PyPI, for the schemas.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.37.0
validate=$PWD/.cache/tools/kubernetes-validate-$version
.ci/tools.sh kustomize
if [ ! -e "$validate/installed" ]; then
	python3 -m venv "$validate" && "$validate/bin/pip" install --quiet --disable-pip-version-check "kubernetes-validate==$version" && touch "$validate/installed" ||
		{ echo "check-manifests: kubernetes-validate $version cannot be installed: it needs python3 with venv, and PyPI" >&2; exit 1; }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/manifests"
cp -r deploy "$work/deploy"
for ledger in tigerbeetle ledger-elsewhere; do
	sed -i -E "s/^  - (tigerbeetle|ledger-elsewhere)( #.*)?$/  - $ledger/" "$work/deploy/kustomize/kustomization.yaml"
	.cache/tools/kustomize build "$work/deploy/kustomize" >"$work/manifests/$ledger.yaml"
done
# By its own python: the script names the folder that it was installed in, and a checkout may move.
"$validate/bin/python3" "$validate/bin/kubernetes-validate" --strict --quiet "$work"/manifests/*.yaml deploy/kustomize/namespace.yaml
echo "check-manifests: $(cat "$work"/manifests/*.yaml deploy/kustomize/namespace.yaml | grep -c '^kind:') objects fit the schemas of Kubernetes ${version%.*}"
LIQUIDA_MANIFESTS=$work/manifests go test -count=1 ./deploy/kustomize
