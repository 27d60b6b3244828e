#!/usr/bin/env bash
# Builds h2spec, which tries a server for conformance with HTTP/2.
source "$(dirname "${BASH_SOURCE[0]}")/../../go_build.sh" h2spec

keep_what_is_built
build "$out/h2spec" github.com/summerwind/h2spec/cmd/h2spec
all_built
