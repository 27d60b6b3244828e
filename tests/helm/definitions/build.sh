#!/usr/bin/env bash
# Takes the CustomResourceDefinitions of what the chart renders for gateways and Prometheus from the modules
# that go.mod pins. Nothing is compiled.
source "$(dirname "${BASH_SOURCE[0]}")/../../go_build.sh" helm-definitions

keep_what_is_built
mkdir -p "$out"

define() { # module, file in it
  go mod download "$1"
  install -m 644 "$(go list -m -f '{{.Dir}}' "$1")/$2" "$out/"
}

for kind in gateways httproutes; do
  define sigs.k8s.io/gateway-api "config/crd/standard/gateway.networking.k8s.io_$kind.yaml"
done
define istio.io/api kubernetes/customresourcedefinitions.gen.yaml
define github.com/prometheus-operator/prometheus-operator \
  example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml
all_built
