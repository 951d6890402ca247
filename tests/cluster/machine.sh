# Sourced by guard.sh: the two nodes' machine, which is a set of namespaces with a cable to this one.

why_no_node() { # answers `missing` unless nodes can run here
	[ "$(uname)" = Linux ] || missing "Linux"
	[ "$(id -u)" = 0 ] || missing "root (level node makes namespaces and cgroups)"
	local pair program absent=()
	for pair in runc:runc iptables:iptables conntrack:conntrack busybox:busybox-static docker-registry:docker-registry \
		ip:iproute2 unshare:util-linux nsenter:util-linux sysctl:procps; do
		command -v "${pair%:*}" >/dev/null || absent+=("${pair#*:}")
	done
	[ ${#absent[@]} = 0 ] || missing "the Debian packages ${absent[*]}"
	! ldd "$(command -v busybox)" >/dev/null 2>&1 || missing "the Debian package busybox-static"
}

child_of() { # PID PATTERN: the first child whose command line has it
	local pid
	for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
		! { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q -e "$2" || { echo "$pid"; return; }
	done
	return 1
}
machine_runs() { init=$(child_of "$(cat "$S/pid/machine")" "init.sh $S ") && [ -e "$S/machine" ]; }

enter_machine() {
	cat >"$S/settings" <<-E
	address=$address other_address=$other_address host_address=$host_address pod_prefix=$pod_prefix
	dns_address=$dns_address cgroup=$cgroup KUBE=$KUBE NODE=$NODE
	E
	setpriv --pdeathsig KILL unshare --net --mount --propagation private --pid --fork --mount-proc --kill-child \
		"$here/init.sh" "$S" machine </dev/null >"$S/log/machine.log" 2>&1 3>&- &
	echo $! >"$S/pid/machine"
	until_ok 10 machine_runs || return 1
	# The cable: this end is in the machine's own network, and reaches nodes, pods and Services through the other one.
	ip link add "$link" type veth peer name eth0 netns "$init" || return 1
	ip addr add "$host_address/24" dev "$link"
	ip link set "$link" up
	ip route add "$pod_prefix.0.0/16" via "$address" dev "$link" 2>/dev/null || ip route add "$pod_prefix.0.0/16" dev "$link"
	inside=(nsenter "--net=/proc/$init/ns/net")
	until_ok 10 test -e "$S/connected"
}

# The registries: a plain one, and one with TLS and a password. The hash is that of REGISTRY_PASSWORD in handle.rs.
start_registries() {
	mkdir -p "$S/registry" "$S/registry-tls"
	echo 'modelway:$2y$05$iF7aC5Ya6CIH2v8gGgtqrus0HTAHKBwwNE5w1eYecf9Qf/V5kO.Zq' >"$S/registry-tls/htpasswd"
	local store='storage: {delete: {enabled: true}, filesystem: {rootdirectory:'
	printf 'version: 0.1\n%s "%s"}}\nhttp: {addr: "%s:5000"}\n' "$store" "$S/registry/data" "$address" >"$S/registry/config.yml"
	printf 'version: 0.1\n%s "%s"}}\nhttp: {addr: "%s:5443", tls: {certificate: "%s", key: "%s"}}\nauth: {htpasswd: {realm: test, path: "%s"}}\n' \
		"$store" "$S/registry-tls/data" "$address" "$S/pki/registry.crt" "$S/pki/registry.key" "$S/registry-tls/htpasswd" >"$S/registry-tls/config.yml"
	run registry docker-registry serve "$S/registry/config.yml"
	run registry-tls docker-registry serve "$S/registry-tls/config.yml"
}

# Images made here: Debian's busybox, the pause image on top of the same folder, and CoreDNS.
make_images() {
	local images=$S/images root=$S/busybox name
	mkdir -p "$images" "$root"/{bin,tmp,etc} "$S/coredns"
	chmod 1777 "$root/tmp"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for name in $(busybox --list); do [ "$name" = busybox ] || ln -sf busybox "$root/bin/$name"; done
	ln -f "$COREDNS/coredns" "$S/coredns/coredns" 2>/dev/null || cp "$COREDNS/coredns" "$S/coredns/"
	"$MKIMAGE/mkimage" -o "$images/busybox.tar" -name bench.local/busybox:1 "$root" &&
		"$MKIMAGE/mkimage" -o "$images/pause.tar" -name bench.local/pause:1 -entrypoint "/bin/sleep 2147483647" "$root" &&
		"$MKIMAGE/mkimage" -o "$images/coredns.tar" -name bench.local/coredns:1 -entrypoint /coredns "$S/coredns" &&
		touch "$S/images/made"
}

find_nodes() { # their processes as this machine counts them, for who wants to enter
	local n
	for n in 1 2; do child_of "$init" "node.sh $S $n" >"$S/pid/node$n" || return 1; done
}

start_nodes() {
	start_registries
	make_images || return 1
	until_ok 30 find_nodes || return 1
	sed "s/DNS_ADDRESS/$dns_address/" "$here/manifests/coredns.yaml" | kubectl apply -f - || return 1
	until_ok 180 kubectl get node node1 node2 &&
		kubectl wait --for=condition=Ready node/node1 node/node2 --timeout=120s &&
		kubectl -n kube-system rollout status deployment/coredns --timeout=120s
}
