#!/bin/sh
# Runs the OCI distribution conformance suite against the embedded registry, with every option of the suite on.
# Needs Go and the Go module proxy (first time only). Exit status 0: no failure.
#
#   tests/oci/conformance.sh [work folder]
#
# CONFORMANCE_REGISTRY=host:port tests another registry (plain http) instead.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${1:-${TMPDIR:-/tmp}/modelway-conformance}
mkdir -p "$work"

suite=$work/oci-conformance
if [ ! -x "$suite" ]; then
    (cd "$here/conformance" && go build -o "$suite" github.com/opencontainers/distribution-spec/conformance)
fi

server=
trap 'test -z "$server" || kill "$server"; test -z "${data:-}" || rm -rf "$data"' EXIT INT TERM
registry=${CONFORMANCE_REGISTRY:-}
if [ -z "$registry" ]; then
    (cd "$root" && cargo build --quiet -p modelway-registry --example serve)
    data=$(mktemp -d "$work/data.XXXXXX")
    rm -f "$work/address"
    "${CARGO_TARGET_DIR:-$root/target}/debug/examples/serve" "$data" --sparse >"$work/address" &
    server=$!
    tries=0
    while [ ! -s "$work/address" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "the registry did not start" >&2; exit 1; }
        sleep 0.1
    done
    registry=$(cat "$work/address")
fi

status=0
OCI_VERSION=dev OCI_REGISTRY=$registry OCI_TLS=disabled OCI_REPO1=conformance/one OCI_REPO2=conformance/two \
    OCI_DATA_SPARSE=true OCI_API_BLOBS_UPLOAD_CANCEL=true OCI_API_BLOBS_DIGEST_HEADER=true \
    OCI_API_MANIFESTS_DIGEST_HEADER=true OCI_API_MANIFESTS_TAG_PARAM=true \
    OCI_RESULTS_DIR=$work/results "$suite" >"$work/output" 2>&1 || status=$?
sed -n '/^OCI Conformance Result/,$p' "$work/output"
exit "$status"
