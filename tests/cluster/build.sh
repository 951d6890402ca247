#!/usr/bin/env bash
# Builds the programs of the test cluster from Go modules, once for each version, and prints their folders.
#   build.sh WHAT...      kube kube134 node coredns mkimage helm
# kube     etcd, the API server, the controllers, the scheduler, kubelet, kube-proxy and kubectl in one binary
# kube134  the control plane of the oldest version that Modelway supports
# node     containerd with its shim and ctr; the CNI plugins
# coredns  the cluster's DNS
# mkimage  writes image archives
# helm     Helm 4
# Ends with 3 when Go is missed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/modelway/cluster
PATH=$PATH:/usr/local/go/bin
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOWORK=off

build_kube() { # TARGET; unstamped, the version would read v0.0.0-master+$Format:%H$
	local version=$1 target=$2 stamp=k8s.io/component-base/version major minor rest
	IFS=. read -r major minor rest <<<"${version#v}"
	go build -ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" \
		-o "$target/kube" .
	ln -s kube "$target/kubectl"
}
build_node() {
	local containerd=github.com/containerd/containerd/v2/cmd plugins=github.com/containernetworking/plugins/plugins
	mkdir "$2/cni"
	go build -ldflags "-s -w" -o "$2/" $containerd/containerd $containerd/containerd-shim-runc-v2 $containerd/ctr
	go build -ldflags "-s -w" -o "$2/cni/" \
		$plugins/main/bridge $plugins/main/loopback $plugins/meta/portmap $plugins/ipam/host-local
}
build_coredns() { go build -ldflags "-s -w" -o "$2/" .; }
build_mkimage() { go build -ldflags "-s -w" -o "$2/" .; }
build_helm() { go build -ldflags "-s -w" -o "$2/" helm.sh/helm/v4/cmd/helm; }

version_of() { # WHAT: what the module file says of its main dependency
	local module
	case $1 in
	kube*) module=k8s.io/kubernetes ;;
	node) module=github.com/containerd/containerd/v2 ;;
	coredns) module=github.com/coredns/coredns ;;
	helm) module=helm.sh/helm/v4 ;;
	*) echo v1 && return ;;
	esac
	sed -nE "s#^(require)?[[:space:]]*$module (v[^ ]+).*#\2#p" "$here/$1/go.mod" | head -n 1
}

provide() { # WHAT: prints its folder, built now unless it is there
	local what=$1 version key target fresh
	version=$(version_of "$what")
	key=$({ cat "$here/$what"/*; declare -f "build_${what%%[0-9]*}"; } | sha256sum | cut -c1-12)
	target=$cache/$what-$version-$key
	mkdir -p "$cache"
	exec 8>"$cache/$what.lock"
	flock 8 # another test run may be building the same
	if [ ! -e "$target" ]; then
		command -v go >/dev/null || { echo "$what $version is not built yet, and Go (https://go.dev/dl) is not here to build it" >&2; exit 3; }
		echo "building $what $version (kept in $target)" >&2
		find "$cache" -maxdepth 1 -name "$what-*" -mtime +30 -exec rm -rf {} + # versions that nothing uses any more
		fresh=$(mktemp -d "$target.XXXXXX")
		trap 'rm -rf "$fresh"' EXIT
		(cd "$here/$what" && "build_${what%%[0-9]*}" "$version" "$fresh") >&2 8>&-
		chmod 755 "$fresh"
		mv "$fresh" "$target"
		trap - EXIT
		echo "built $what $version in $SECONDS s" >&2
	fi
	touch "$target" # used today
	exec 8>&-
	echo "$target"
}

[ $# -gt 0 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for what in "$@"; do
	[ -e "$here/$what/go.mod" ] || { echo "build.sh: no module $what" >&2; exit 2; }
	SECONDS=0
	provide "$what"
done
