# Sourced by guard.sh: etcd, the API server, the controllers and the scheduler.

inside=() # what enters the cluster's network, at level node

run() { # NAME COMMAND...: in the background, ended with the guard, started again when it ends
	local name=$1
	shift
	setpriv --pdeathsig KILL "$here/keep.sh" "$S" "$name" ${inside[@]+"${inside[@]}"} "$@" </dev/null >/dev/null 2>&1 3>&- &
	echo $! >"$S/pid/keep-$name"
}
until_ok() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "gave up: $*"; return 1; }
		sleep 0.1
	done
}
api() { # PATH
	curl -sf --noproxy '*' -m 5 --cacert "$S/pki/ca.crt" --cert "$S/pki/admin.crt" --key "$S/pki/admin.key" "https://$address:6443$1"
}
healthy() { curl -skf --noproxy '*' -m 5 "https://$address:$1/healthz"; } # PORT
kubectl() { "$KUBE/kubectl" --kubeconfig "$S/pki/admin.kubeconfig" "$@"; }

start_api() {
	local p=$S/pki client=http://127.0.0.1:2379 peer=http://127.0.0.1:2380 reconciler=lease durable=()
	# The Service `kubernetes` may not point at a loopback address, so its endpoints are left out there.
	[ "$level" = node ] || client=http://$address:2379 peer=http://$address:2380 reconciler=none
	[ -n "$fsync" ] || durable=(--unsafe-no-fsync)
	run etcd "$SERVERS/kube" etcd --name=test --data-dir="$S/etcd" --log-level=warn ${durable[@]+"${durable[@]}"} \
		--listen-client-urls=$client --advertise-client-urls=$client \
		--listen-peer-urls=$peer --initial-advertise-peer-urls=$peer --initial-cluster=test=$peer
	run apiserver "$SERVERS/kube" apiserver --etcd-servers=$client \
		--bind-address="$address" --advertise-address="$address" --secure-port=6443 --endpoint-reconciler-type=$reconciler \
		--service-cluster-ip-range="$service_cidr" --authorization-mode=Node,RBAC \
		--enable-admission-plugins=NodeRestriction --allow-privileged=true \
		--audit-policy-file="$here/audit.yaml" --audit-log-path="$S/log/audit.log" \
		--tls-cert-file="$p/apiserver.crt" --tls-private-key-file="$p/apiserver.key" --client-ca-file="$p/ca.crt" \
		--service-account-issuer=https://kubernetes.default.svc.cluster.local \
		--service-account-key-file="$p/sa.pub" --service-account-signing-key-file="$p/sa.key" \
		--kubelet-certificate-authority="$p/ca.crt" --kubelet-client-certificate="$p/kubelet-client.crt" \
		--kubelet-client-key="$p/kubelet-client.key" --kubelet-preferred-address-types=InternalIP \
		--requestheader-client-ca-file="$p/ca.crt" --requestheader-allowed-names=front-proxy-client \
		--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
		--requestheader-extra-headers-prefix=X-Remote-Extra- \
		--proxy-client-cert-file="$p/front-proxy.crt" --proxy-client-key-file="$p/front-proxy.key"
	until_ok 120 api /readyz && until_ok 60 api /api/v1/namespaces/default
}

start_controllers() {
	local c=$S/pki/controller-manager.kubeconfig patience=()
	# Without kubelets, a node is what a test says of it: nothing renews its lease.
	[ "$level" = node ] || patience=(--node-monitor-grace-period=24h)
	run controller-manager "$SERVERS/kube" controller-manager --bind-address="$address" --leader-elect=false \
		--kubeconfig="$c" --authentication-kubeconfig="$c" --authorization-kubeconfig="$c" \
		--use-service-account-credentials --service-account-private-key-file="$S/pki/sa.key" --root-ca-file="$S/pki/ca.crt" \
		--cluster-signing-cert-file="$S/pki/ca.crt" --cluster-signing-key-file="$S/pki/ca.key" ${patience[@]+"${patience[@]}"}
	c=$S/pki/scheduler.kubeconfig
	run scheduler "$SERVERS/kube" scheduler --bind-address="$address" --leader-elect=false \
		--kubeconfig="$c" --authentication-kubeconfig="$c" --authorization-kubeconfig="$c"
	until_ok 120 healthy 10257 && until_ok 60 healthy 10259 && until_ok 60 api /api/v1/namespaces/default/serviceaccounts/default
}
