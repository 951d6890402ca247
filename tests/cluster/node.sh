#!/usr/bin/env bash
# One node, in a mount namespace of its own:  node.sh STATE NUMBER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
S=$1 n=$2
. "$S/settings"
[ "$n" = 1 ] || address=$other_address
N=$S/node$n
mkdir -p "$N"/{kubelet,containerd,cni,overlay}

# Paths that the programs fix (shim sockets, pod network namespaces, CNI's and the kubelet's logs) are covered.
mount --make-rshared / # a new peer group: shared with the containers, not with the machine
mount -t tmpfs tmpfs /run
for folder in var/lib var/log; do
	mkdir -p "$N/overlay/$folder/upper" "$N/overlay/$folder/work"
	mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$N/overlay/$folder/upper,workdir=$N/overlay/$folder/work" "/$folder" ||
		mount -t tmpfs tmpfs "/$folder"
done

make_cgroups() { # the kubelet wants its root in every controller
	local root=/sys/fs/cgroup controller
	if [ -e $root/cgroup.controllers ]; then # version 2
		mkdir -p "$root/$cgroup/n$n"
		for controller in $(cat $root/cgroup.controllers); do
			for folder in "$root" "$root/$cgroup"; do echo "+$controller" >"$folder/cgroup.subtree_control" || true; done
		done
	else
		for controller in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
			[ ! -e $root/$controller/cgroup.procs ] || mkdir -p "$root/$controller/$cgroup/n$n"
		done
	fi
}

configure_containerd() {
	local registry=${address%.*}.1 snapshotter=overlayfs
	[ "$(stat -f -c %T "$N")" != overlayfs ] || snapshotter=native # one overlay does not carry another
	mkdir -p "$N/certs.d/$registry:5000" "$N/certs.d/$registry:5443"
	cat >"$N/certs.d/$registry:5000/hosts.toml" <<-T
	server = "http://$registry:5000"
	[host."http://$registry:5000"]
	  capabilities = ["pull", "resolve"]
	T
	cat >"$N/certs.d/$registry:5443/hosts.toml" <<-T
	server = "https://$registry:5443"
	[host."https://$registry:5443"]
	  capabilities = ["pull", "resolve"]
	  ca = "$S/pki/ca.crt"
	T
	cat >"$N/cni/10-test.conflist" <<-J
	{"cniVersion": "1.0.0", "name": "test$n", "plugins": [
	  {"type": "bridge", "bridge": "cni$n", "isDefaultGateway": true, "hairpinMode": true, "ipMasq": false,
	   "ipam": {"type": "host-local", "dataDir": "$N/networks", "ranges": [[{"subnet": "$pod_prefix.$n.0/24"}]]}},
	  {"type": "portmap", "capabilities": {"portMappings": true}}]}
	J
	cat >"$N/containerd.toml" <<-T
	version = 3
	root = "$N/containerd"
	state = "/run/containerd"
	[grpc]
	  address = "/run/containerd/containerd.sock"
	[plugins."io.containerd.internal.v1.opt"]
	  path = "$N/opt"
	[plugins."io.containerd.nri.v1.nri"]
	  disable = true
	[plugins."io.containerd.cri.v1.images"]
	  snapshotter = "$snapshotter"
	  [plugins."io.containerd.cri.v1.images".pinned_images]
	    sandbox = "bench.local/pause:1"
	  [plugins."io.containerd.cri.v1.images".registry]
	    config_path = "$N/certs.d"
	[plugins."io.containerd.cri.v1.runtime"]
	  # root may lack CAP_SYS_RESOURCE: then no oom_score_adj may be lowered (runc would fail with
	  # "can't get final child's PID from pipe: EOF")
	  restrict_oom_score_adj = true
	  [plugins."io.containerd.cri.v1.runtime".cni]
	    bin_dirs = ["$NODE/cni"]
	    conf_dir = "$N/cni"
	  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
	    runtime_type = "io.containerd.runc.v2"
	    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
	      BinaryName = "$(command -v runc)"
	      SystemdCgroup = false
	T
}

configure_kubelet() {
	echo "nameserver $address" >"$N/resolv.conf"
	# NeverVerify: else an image imported here and also pulled under another name (same image ID) counts as not present
	# for pods with imagePullPolicy: Never.
	cat >"$N/kubelet.yaml" <<-Y
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	address: $address
	healthzBindAddress: $address
	failCgroupV1: false
	cgroupDriver: cgroupfs
	cgroupRoot: /$cgroup/n$n
	containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
	authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $S/pki/ca.crt}}
	authorization: {mode: Webhook}
	tlsCertFile: $S/pki/kubelet-serving.crt
	tlsPrivateKeyFile: $S/pki/kubelet-serving.key
	clusterDNS: [$dns_address]
	clusterDomain: cluster.local
	resolvConf: $N/resolv.conf
	failSwapOn: false
	volumeStatsAggPeriod: 5s # 1 min by default: how long a full emptyDir goes unnoticed
	evictionHard: {memory.available: 100Mi, nodefs.available: 200Mi, imagefs.available: 200Mi}
	imageGCHighThresholdPercent: 100
	imagePullCredentialsVerificationPolicy: NeverVerify
	Y
}

ctr() { "$NODE/ctr" -a /run/containerd/containerd.sock -n k8s.io "$@"; }
until_ok() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "gave up: $*"; return 1; }
		sleep 0.1
	done
}

make_cgroups
configure_containerd
configure_kubelet
PATH=$NODE:$PATH "$NODE/containerd" --config "$N/containerd.toml" --address /run/containerd/containerd.sock >"$S/log/containerd$n.log" 2>&1 &
until_ok 30 ctr version
until_ok 60 test -e "$S/images/made"
for image in "$S"/images/*.tar; do ctr images import --local "$image"; done
"$KUBE/kube" kubelet --config="$N/kubelet.yaml" --kubeconfig="$S/pki/node$n.kubeconfig" \
	--root-dir="$N/kubelet" --hostname-override="node$n" --node-ip="$address" >"$S/log/kubelet$n.log" 2>&1 &
# nf_conntrack_max is read-only outside the machine's first network namespace: 0 leaves it alone.
[ "$n" != 1 ] || "$KUBE/kube" proxy --kubeconfig="$S/pki/proxy.kubeconfig" --hostname-override="node$n" \
	--proxy-mode=iptables --cluster-cidr="$pod_prefix.0.0/18" --conntrack-max-per-core=0 -v=2 >"$S/log/proxy.log" 2>&1 &
while :; do sleep 3600 & wait -n || true; done
