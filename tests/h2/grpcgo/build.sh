#!/usr/bin/env bash
# Builds a client on grpc-go and prints where it is.
source "$(dirname "${BASH_SOURCE[0]}")/../../go_build.sh" grpcgo

program=$out/client-$sources
[[ -x $program ]] || build "$program" .
echo "$program"
