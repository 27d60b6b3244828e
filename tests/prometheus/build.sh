#!/usr/bin/env bash
# Builds Prometheus and promtool, in the version go.mod pins, for the tests of alerts and dashboards.
# What is up to date is kept. They come without the clients of all the clouds that Prometheus discovers
# targets in, and go.mod pins what tests/kube/go.mod pins where it can: after the API server promtool
# takes a minute of two cores, and Prometheus two more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

out=${EPP_PROMETHEUS_BIN:-$HOME/.cache/epp-prometheus}
stamp=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-16)
if [[ $(cat "$out/.stamp" 2>/dev/null) == "$stamp" ]]; then
  echo "prometheus: $out is up to date"
  exit 0
fi
command -v go >/dev/null || { echo "prometheus: Go 1.26 or later is needed to build it" >&2; exit 1; }
mkdir -p "$out"

export CGO_ENABLED=0
export GOFLAGS="-mod=readonly -buildvcs=false -trimpath"
# At the lowest priority: this runs beside other steps.
for program in promtool prometheus; do
  nice -n 19 go build -tags remove_all_sd -ldflags "-s -w" -o "$out/$program.$$" \
    "github.com/prometheus/prometheus/cmd/$program"
  mv "$out/$program.$$" "$out/$program"
done
echo "$stamp" >"$out/.stamp"
echo "prometheus: built after ${SECONDS}s"
