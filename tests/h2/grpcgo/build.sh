#!/usr/bin/env bash
# Builds a client on grpc-go and prints where it is. What was built of the same sources is kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

out=${EPP_GRPCGO_BIN:-$HOME/.cache/epp-grpcgo}
program=$out/client-$(cat ./*.go go.mod go.sum build.sh | sha256sum | cut -c1-16)
if [[ ! -x $program ]]; then
  command -v go >/dev/null || { echo "grpcgo: Go 1.26 or later is needed to build it" >&2; exit 1; }
  mkdir -p "$out"
  CGO_ENABLED=0 nice -n 19 go build -mod=readonly -buildvcs=false -trimpath -o "$program.$$" .
  mv "$program.$$" "$program"
fi
echo "$program"
