#!/usr/bin/env bash
# One CA, the certificates and the kubeconfigs of the cluster:
#   pki.sh FOLDER API_ADDRESS SERVICE_ADDRESS OTHER_NODE_ADDRESS
set -euo pipefail
mkdir -p "$1"
cd "$1"
address=$2 service=$3 other=$4

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
cert() { # NAME SUBJECT EXTENSION...
	local name=$1 subject=$2
	shift 2
	key "$name"
	openssl req -new -key "$name.key" -subj "$subject" -out "$name.csr"
	openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 8)" -days 365 -out "$name.crt" \
		-extfile <(printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n'; printf '%s\n' "$@") 2>/dev/null
	rm "$name.csr"
}
user() { # NAME SUBJECT -> NAME.kubeconfig
	cert "$1" "$2"
	cat >"$1.kubeconfig" <<-Y
	apiVersion: v1
	kind: Config
	clusters: [{name: test, cluster: {server: "https://$address:6443", certificate-authority: "$PWD/ca.crt"}}]
	users: [{name: $1, user: {client-certificate: "$PWD/$1.crt", client-key: "$PWD/$1.key"}}]
	contexts: [{name: test, context: {cluster: test, user: $1}}]
	current-context: test
	Y
}

key ca
openssl req -x509 -new -key ca.key -subj /CN=modelway-test-ca -days 365 -out ca.crt \
	-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature 2>/dev/null
openssl genrsa -out sa.key 2048 2>/dev/null &
cert apiserver /CN=kube-apiserver "subjectAltName=IP:127.0.0.1,IP:$service,IP:$address,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
cert kubelet-serving /CN=kubelet "subjectAltName=IP:$address,IP:$other,DNS:node1,DNS:node2"
cert registry /CN=registry "subjectAltName=IP:$address"
cert kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
cert front-proxy /CN=front-proxy-client
user admin /O=system:masters/CN=admin
user controller-manager /CN=system:kube-controller-manager
user scheduler /CN=system:kube-scheduler
user node1 /O=system:nodes/CN=system:node:node1
user node2 /O=system:nodes/CN=system:node:node2
user proxy /CN=system:kube-proxy
wait
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
