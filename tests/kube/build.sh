#!/usr/bin/env bash
# Builds etcd, kube-apiserver and kustomize, in the versions go.mod pins, for the tests that need a
# real API server. What is up to date is kept. About ten minutes and 4 GB on a new machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

out=${EPP_KUBE_TEST_BIN:-$HOME/.cache/epp-kube-test}
stamp=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-16)
if [[ $(cat "$out/.stamp" 2>/dev/null) == "$stamp" ]]; then
  echo "kube-test: $out is up to date"
  exit 0
fi
command -v go >/dev/null || { echo "kube-test: Go 1.26 or later is needed to build the API server" >&2; exit 1; }
mkdir -p "$out"

export CGO_ENABLED=0 # static programs, no C compiler needed
export GOFLAGS="-mod=readonly -buildvcs=false -trimpath"
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=$(cut -d. -f2 <<<"$kubernetes")

build() { # name, package, linker flags
  # At the lowest priority: this runs beside other steps.
  nice -n 19 go build -ldflags "-s -w ${*:3}" -o "$out/$1" "$2"
  echo "kube-test: $1 built after ${SECONDS}s"
}

build etcd go.etcd.io/etcd/server/v3
build kustomize sigs.k8s.io/kustomize/kustomize/v5
# Without a version the server calls itself v0.0.0-master, which kubectl can't read.
version=k8s.io/component-base/version
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver \
  -X "$version.gitVersion=$kubernetes" -X "$version.gitMajor=1" -X "$version.gitMinor=$minor"
echo "$stamp" >"$out/.stamp"
