#!/usr/bin/env bash
# Builds helm, in the version go.mod pins, for the tests of the chart, and takes the definitions of
# what the chart renders for others from the modules of definitions/go.mod. What is up to date is
# kept. Where go.mod can, it pins what tests/kube/go.mod pins: what was compiled for the API server
# serves here, too, and two minutes are enough.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

out=${EPP_HELM_BIN:-$HOME/.cache/epp-helm}
stamp=$(cat go.mod go.sum definitions/go.* build.sh | sha256sum | cut -c1-16)
if [[ $(cat "$out/.stamp" 2>/dev/null) == "$stamp" ]]; then
  echo "helm: $out is up to date"
  exit 0
fi
command -v go >/dev/null || { echo "helm: Go 1.26 or later is needed to build it" >&2; exit 1; }
mkdir -p "$out"

export CGO_ENABLED=0
export GOFLAGS="-mod=readonly -buildvcs=false -trimpath"

define() { # module, file in it
  (
    cd definitions
    go mod download "$1"
    cp "$(go list -m -f '{{.Dir}}' "$1")/$2" "$out/"
    chmod u+w "$out/${2##*/}"
  )
}

define sigs.k8s.io/gateway-api config/crd/standard/gateway.networking.k8s.io_httproutes.yaml
define istio.io/api kubernetes/customresourcedefinitions.gen.yaml
define github.com/prometheus-operator/prometheus-operator \
  example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml

# Without versions it takes every cluster for Kubernetes 1.20.
minor=$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2)
versions=helm.sh/helm/v3/pkg/chartutil
# At the lowest priority: this runs beside other steps.
nice -n 19 go build -ldflags "-s -w -X $versions.k8sVersionMajor=1 -X $versions.k8sVersionMinor=$minor" \
  -o "$out/helm.$$" helm.sh/helm/v3/cmd/helm
mv "$out/helm.$$" "$out/helm"
echo "$stamp" >"$out/.stamp"
echo "helm: built after ${SECONDS}s"
