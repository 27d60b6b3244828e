#!/usr/bin/env bash
# Builds h2spec, which tries a server for conformance with HTTP/2. What is there is kept.
set -euo pipefail

version=v2.2.1+incompatible
out=${EPP_H2SPEC_BIN:-$HOME/.cache/epp-h2spec}
[[ $(cat "$out/.version" 2>/dev/null) == "$version" ]] && exit 0
command -v go >/dev/null || { echo "h2spec: Go is needed to build it" >&2; exit 1; }
mkdir -p "$out"
CGO_ENABLED=0 GOBIN=$out nice -n 19 go install "github.com/summerwind/h2spec/cmd/h2spec@$version"
echo "$version" >"$out/.version"
