#!/usr/bin/env bash
# Builds the program that asks Knative's autoscaler, once for each version of it, and prints its path: half a minute.
# Ends with 3 when Go is missed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/modelway/knative
PATH=$PATH:/usr/local/go/bin
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOWORK=off

key=$(cat "$here"/{main.go,go.mod,go.sum,build.sh} | sha256sum | cut -c1-12)
target=$cache/$key
mkdir -p "$cache"
exec 8>"$cache/lock"
flock 8 # another test run may be building the same
if [ ! -e "$target" ]; then
	command -v go >/dev/null || { echo "Knative's autoscaler is not built yet, and Go (https://go.dev/dl) is not here to build it" >&2; exit 3; }
	fresh=$(mktemp -d "$target.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	(cd "$here" && go build -ldflags "-s -w" -o "$fresh/knative" .) >&2 8>&-
	find "$cache" -mindepth 1 -maxdepth 1 -type d ! -path "$fresh" -mtime +30 -exec rm -rf {} +
	chmod 755 "$fresh"
	mv "$fresh" "$target"
	trap - EXIT
fi
touch "$target" # used today
echo "$target/knative"
