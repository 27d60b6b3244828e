#!/usr/bin/env bash
# Builds etcd, kube-apiserver and kustomize, in the versions go.mod pins, for the tests that need a
# real API server. About ten minutes and 4 GB on a new machine.
source "$(dirname "${BASH_SOURCE[0]}")/../go_build.sh" kube-test

keep_what_is_built
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=$(cut -d. -f2 <<<"$kubernetes")
build "$out/etcd" go.etcd.io/etcd/server/v3
build "$out/kustomize" sigs.k8s.io/kustomize/kustomize/v5
# Without a version the server calls itself v0.0.0-master, which kubectl can't read.
version=k8s.io/component-base/version
build "$out/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver \
  -X "$version.gitVersion=$kubernetes" -X "$version.gitMajor=1" -X "$version.gitMinor=$minor"
all_built
