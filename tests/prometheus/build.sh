#!/usr/bin/env bash
# Builds Prometheus and promtool, in the version go.mod pins, for the tests of alerts and dashboards.
# They come without the clients of all the clouds that Prometheus discovers targets in, and go.mod pins
# what tests/kube/go.mod pins where it can: after the API server promtool takes a minute of two cores, and
# Prometheus two more.
source "$(dirname "${BASH_SOURCE[0]}")/../go_build.sh" prometheus

keep_what_is_built
GOFLAGS+=" -tags=remove_all_sd"
for program in promtool prometheus; do
  build "$out/$program" "github.com/prometheus/prometheus/cmd/$program"
done
all_built
