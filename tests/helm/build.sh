#!/usr/bin/env bash
# Builds helm, in the version go.mod pins, for the tests of the chart. Where go.mod can, it pins what
# tests/kube/go.mod pins: what was compiled for the API server serves here, too, and two minutes are enough.
source "$(dirname "${BASH_SOURCE[0]}")/../go_build.sh" helm

definitions/build.sh
keep_what_is_built
# Without versions it takes every cluster for Kubernetes 1.20.
minor=$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2)
versions=helm.sh/helm/v3/pkg/chartutil
build "$out/helm" helm.sh/helm/v3/cmd/helm -X "$versions.k8sVersionMajor=1" -X "$versions.k8sVersionMinor=$minor"
all_built
