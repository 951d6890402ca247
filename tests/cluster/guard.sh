#!/usr/bin/env bash
# Starts a Kubernetes cluster, and ends it and all that it made when its standard input ends.
#   guard.sh LEVEL [fsync]        LEVEL: api, control or node
# api      etcd and the API server, on a loopback address of their own
# control  the controllers and the scheduler too
# node     two nodes too (containerd and kubelet each), kube-proxy, CoreDNS and two registries, in network, mount and
#          PID namespaces of their own: the machine reaches pods and Services, and nothing leaves it. Wants root.
# Standard output gets one line: "ready STATE_FOLDER", "missing WHAT" or "failed WHY".
# With MODELWAY_TEST_OLDEST=1 in the environment, levels api and control run the oldest Kubernetes that is supported.
# With `fsync`, etcd writes as in production. A file `keep` in the state folder keeps the logs.
#
# A cluster has one of 50 slots, which gives it addresses, names and a state folder. A lock on the slot is held as long
# as any of its processes lives. Every child dies with its parent; what a killed guard leaves in files, links and cgroups,
# its undertaker removes, or the next guard.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
level=${1:-} fsync=${2:-}
base=${TMPDIR:-/tmp}/modelway-cluster-$(id -u)
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
exec 3>&1 # the answer; everything else that is written goes to a log
. "$here/slots.sh"
. "$here/control-plane.sh"
. "$here/machine.sh"

answer() { # WORD TEXT
	printf '%s %s\n' "$1" "$(tr '\n' ' ' <<<"$2")" >&3
	exec 3>&-
}
missing() { answer missing "$1"; exit 0; }
fail() {
	touch "$S/keep"
	answer failed "$1; the logs are kept in $(kept_logs)"
	exit 1
}

case $level in api | control | node) ;; *) echo "guard.sh: LEVEL is api, control or node" >&2; exit 2 ;; esac
for program in curl flock openssl setpriv; do
	command -v $program >/dev/null || missing "the program $program"
done
[ "$level" != node ] || why_no_node
mkdir -p -m 700 "$base" || missing "a folder $base"
what=kube
[ "$level" = node ] && what="kube node coredns mkimage"
[ "$level" != node ] && [ "${MODELWAY_TEST_OLDEST:-}" = 1 ] && what="kube kube134"
built=$("$here/build.sh" $what 2>"$base/build-$$.log")
status=$?
if [ $status != 0 ]; then
	[ $status = 3 ] && word=missing || word=failed
	answer $word "the cluster's programs: $(tail -n 5 "$base/build-$$.log")"
	rm -f "$base/build-$$.log"
	exit 1
fi
rm -f "$base/build-$$.log"
# SERVERS has the programs, KUBE the newest kubectl.
case $what in
*kube134) { read -r KUBE; read -r SERVERS; } <<<"$built" ;;
*) { read -r KUBE; read -r NODE; read -r COREDNS; read -r MKIMAGE; } <<<"$built"; SERVERS=$KUBE ;;
esac

sweep_slots
take_slot || missing "a free slot of the 50 in $base"
exec >"$S/log/guard.log" 2>&1
trap 'exit 0' TERM HUP INT
trap 'clear_slot "$slot"' EXIT
setpriv --pdeathsig TERM "$here/undertaker.sh" "$base" "$level" "$slot" </dev/null 3>&- &
# The end of standard input is the end of who asked for the cluster. When the guard does not heed that, since it waits for a
# program, the undertaker does its work.
setpriv --pdeathsig KILL bash -c 'read -r _; kill -TERM "$1"; sleep 10; kill -KILL "$1"' wait $$ <&0 >/dev/null 2>&1 3>&- 9>&- &
exec </dev/null

"$here/pki.sh" "$S/pki" "$address" "$service_address" "$other_address" >"$S/log/pki.log" 2>&1 || fail "no certificates: $(tail -n 3 "$S/log/pki.log")"
[ "$level" != node ] || enter_machine || fail "no namespaces: $(tail -n 3 "$S/log/machine.log")"
start_api || fail "the API server does not get ready: $(tail -n 3 "$S/log/apiserver.log")"
[ "$level" = api ] || start_controllers || fail "the controllers do not get ready: $(tail -n 3 "$S/log/controller-manager.log")"
[ "$level" != node ] || start_nodes || fail "the nodes do not get ready: $(tail -n 3 "$S/log/node1.log")"
printf '{"address": "%s", "host_address": "%s", "kube": "%s", "node": "%s", "mkimage": "%s", "kept_logs": "%s"}\n' \
	"$address" "${host_address:-}" "$KUBE" "${NODE:-}" "${MKIMAGE:-}" "$(kept_logs)" >"$S/facts.json"
answer ready "$S"
while :; do wait -n || sleep 1; done
