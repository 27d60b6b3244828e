# Sourced with a name by each build.sh beside a go.mod: builds programs in Go that tests need. They are in
# EPP_NAME_BIN (~/.cache/epp-NAME), and what was built of the same sources is kept.
set -euo pipefail
shopt -s nullglob

name=$1
shared=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/go_build.sh
cd "$(dirname "${BASH_SOURCE[1]}")"

variable=EPP_$(tr a-z- A-Z_ <<<"$name")_BIN
out=${!variable:-$HOME/.cache/epp-$name}
sources=$(cat ./*.go go.mod go.sum build.sh "$shared" | sha256sum | cut -c1-16)

export CGO_ENABLED=0 # static programs, no C compiler needed
export GOFLAGS="-mod=readonly -buildvcs=false -trimpath"

# Ends the script if all of it is there; `all_built` notes that.
keep_what_is_built() {
  if [[ $(cat "$out/.stamp" 2>/dev/null) == "$sources" ]]; then
    echo "$name: $out is up to date"
    exit 0
  fi
  need_go
}

all_built() {
  echo "$sources" >"$out/.stamp"
  echo "$name: built after ${SECONDS}s"
}

need_go() {
  command -v go >/dev/null || { echo "$name: Go 1.26 or later is needed to build it" >&2; exit 1; }
}

build() { # file, package, linker flags
  need_go
  mkdir -p "$out"
  # At the lowest priority: this runs beside other steps.
  nice -n 19 go build -ldflags "-s -w ${*:3}" -o "$1.$$" "$2"
  mv "$1.$$" "$1"
}
