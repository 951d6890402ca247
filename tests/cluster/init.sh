#!/usr/bin/env bash
# The first process in the nodes' namespaces:  init.sh STATE machine
# Ends with the guard, and takes the namespaces along.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
S=$1
. "$S/settings"
touch "$S/machine"

for _ in $(seq 100); do ! ip link show eth0 >/dev/null 2>&1 || break; sleep 0.1; done
ip link set lo up
ip addr add "$address/24" dev eth0
ip addr add "$other_address/24" dev eth0
ip link set eth0 up
# Without a default route a Service address has no route to begin with. Nobody answers there for other addresses.
ip route add default dev eth0
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 || sysctl -qw net.ipv4.ip_forward=1
touch "$S/connected"

for n in 1 2; do
	unshare --mount --propagation private "$here/node.sh" "$S" $n >"$S/log/node$n.log" 2>&1 &
done
while :; do sleep 3600 & wait -n || true; done # and reap what the shims leave
