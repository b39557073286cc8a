#!/usr/bin/env bash
# Checks the manifests for Kubernetes, with the ledger in the cluster and with one elsewhere: against
# the schemas of a Kubernetes version, strictly, and against each other and the programs.
# Needs no cluster. Where kubernetes-validate cannot be installed it says so and skips the schemas.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.37.0
validate=$PWD/.cache/tools/kubernetes-validate-$version
.ci/tools.sh kustomize
if [ ! -e "$validate/installed" ]; then
	python3 -m venv "$validate" && "$validate/bin/pip" install --quiet --disable-pip-version-check "kubernetes-validate==$version" && touch "$validate/installed" || true
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/manifests"
cp -r deploy "$work/deploy"
for ledger in tigerbeetle ledger-elsewhere; do
	sed -i -E "s/^  - (tigerbeetle|ledger-elsewhere)( #.*)?$/  - $ledger/" "$work/deploy/kustomize/kustomization.yaml"
	.cache/tools/kustomize build "$work/deploy/kustomize" >"$work/manifests/$ledger.yaml"
done
if [ -e "$validate/installed" ]; then
	"$validate/bin/kubernetes-validate" --strict --quiet "$work"/manifests/*.yaml deploy/kustomize/namespace.yaml
	echo "check-manifests: $(cat "$work"/manifests/*.yaml deploy/kustomize/namespace.yaml | grep -c '^kind:') objects fit the schemas of Kubernetes ${version%.*}"
else
	echo "check-manifests: SCHEMAS SKIPPED: kubernetes-validate $version cannot be installed; it needs python3 with venv, and PyPI"
fi
LIQUIDA_MANIFESTS=$work/manifests go test -count=1 ./deploy/kustomize
