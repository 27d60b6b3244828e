#!/usr/bin/env bash
# Builds the load generator and prints where it is.
source "$(dirname "${BASH_SOURCE[0]}")/../../go_build.sh" loadgen

program=$out/loadgen-$sources
[[ -x $program ]] || build "$program" .
echo "$program"
