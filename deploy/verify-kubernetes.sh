#!/usr/bin/env bash
# Proves deploy/kustomize on a real Kubernetes, built here from its source: etcd, API server, controllers,
# scheduler, kubelet, kube-proxy and CoreDNS, one node. It runs the commands of deploy/kustomize/README.md
# as they stand there, then applies again, with another image and another setting too, moves a replica of the
# ledger, takes the data file of another, and lets the audit decide.
#
#   sudo deploy/verify-kubernetes.sh       # Linux, about ten minutes, the first time half an hour
#
# All of it runs in network, mount and process namespaces of its own and ends with them. What stays is
# the cache: LIQUIDA_CACHE (default ~/.cache/liquida).
#
# Not proven: network policies, for no network plugin that enforces them can be had here
# (`make check-manifests` evaluates them); the official images (programs built from source, on Debian, stand in); Redpanda
# and its chart (the embedded broker stands in, with TLS, passwords and rights); more than one node.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${LIQUIDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/liquida}/verify-kubernetes
tools=deploy/verify-kubernetes
coredns_version=v1.14.7
statsd_version=$(sed -n 's|.*image: prom/statsd-exporter:||p' docker-compose.yml)

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'verify-kubernetes: %s\n' "$*" >&2; exit 1; }

# ---- outside: what needs a network ---------------------------------------------------------
if [ "${1:-}" != inside ]; then
	[ "$(uname -s)" = Linux ] || fail "needs Linux: it runs a node of Kubernetes"
	[ "$(id -u)" = 0 ] || fail "needs root, for containers: sudo $0"
	missing=()
	for tool in containerd:containerd runc:runc /usr/lib/cni/ptp:containernetworking-plugins debootstrap:debootstrap iptables:iptables unshare:util-linux ip:iproute2 openssl:openssl go:golang; do
		command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
	done
	[ ${#missing[@]} = 0 ] || fail "needs: apt-get install --no-install-recommends ${missing[*]}"

	mkdir -p "$cache/bin"
	stamp=$cache/built-$(cat $tools/go.mod $tools/go.sum | sha256sum | cut -c 1-16)
	if [ ! -e "$stamp" ]; then
		say "Kubernetes, from its source, once"
		version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' $tools/go.mod)
		minor=${version#v1.}
		(cd $tools && GOWORK=off GOFLAGS= CGO_ENABLED=0 go build -p 2 -trimpath -o "$cache/bin/" \
			-ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}" \
			go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube{-apiserver,-controller-manager,-scheduler,-proxy,let,ctl})
		CGO_ENABLED=0 GOFLAGS= GOWORK=off GOBIN="$cache/bin" go install -trimpath -ldflags='-s -w' "github.com/coredns/coredns@$coredns_version"
		touch "$stamp"
	fi
	if [ ! -e "$cache/bookworm.tar" ]; then
		say "Debian's files, once"
		scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
		debootstrap --variant=minbase --include=tini,wget bookworm "$scratch/root" >"$scratch/log" 2>&1 || { tail "$scratch/log"; fail "debootstrap failed"; }
		tar -C "$scratch/root" --exclude='./var/cache/apt/*' --exclude='./dev/*' -cf "$cache/bookworm.tar.new" .
		mv "$cache/bookworm.tar.new" "$cache/bookworm.tar"
		rm -rf "$scratch"; trap - EXIT
	fi

	say "the programs"
	work=$(mktemp -d /tmp/liquida-verify-XXXXXX)
	inside=
	# However this ends: the namespaces and all that runs in them, then the control groups, the one
	# thing that no namespace ends, and the data.
	put_back() {
		trap - EXIT
		if [ -n "$inside" ]; then
			kill -KILL "$inside" 2>/dev/null || true
			wait "$inside" 2>/dev/null || true
		fi
		local leftover=
		for _ in $(seq 50); do # what was killed needs a moment to be gone
			find /sys/fs/cgroup -depth -type d -path "*/$(basename "$work")*" -exec rmdir {} + 2>/dev/null || true
			rm -rf "$work" 2>/dev/null || true
			leftover=$(find /sys/fs/cgroup "$work" -type d -path "*/$(basename "$work")*" 2>/dev/null | head -n 3) || true
			[ -n "$leftover" ] || return 0
			sleep 0.2
		done
		fail "cannot put back: $leftover"
	}
	trap put_back EXIT
	go build -trimpath -ldflags=-s -o "$work/programs/" ./services/producer ./services/clearing-engine ./services/bank-simulator ./loadtest ./deploy/cmd/bootstrap ./deploy/cmd/broker
	CGO_ENABLED=0 GOFLAGS= GOBIN="$cache/bin" go install "github.com/prometheus/statsd_exporter@$statsd_version"
	tigerbeetle=$(go run ./deploy/cmd/tigerbeetle)
	status=0
	# In the background, so that a signal to this shell is not kept until it ends.
	VERIFY_WORK=$work VERIFY_TIGERBEETLE=$tigerbeetle \
		unshare --net --mount --pid --fork --kill-child --mount-proc "$root/deploy/verify-kubernetes.sh" inside &
	inside=$!
	wait "$inside" || status=$?
	inside=
	put_back
	[ $status = 0 ] || fail "FAILED (exit code $status)"
	say "VERIFIED: README's commands, apply again, another image and setting, a moved and a recovered replica, audit; nothing is left but $cache"
	exit 0
fi

# ---- inside: namespaces of our own, no network --------------------------------------------
work=$VERIFY_WORK
node=10.10.0.1
ip link set lo up
ip link add node type veth peer name nowhere
ip address add $node/24 dev node
ip link set node up
ip link set nowhere up
ip route add default dev node # nothing answers there
sysctl -qw net.ipv4.ip_forward=1
# What the programs write outside of their folders lands in ours.
for folder in etc opt run var/lib var/log usr/libexec; do
	mkdir -p "$work/over/$folder" "$work/over/$folder-work"
	mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/over/$folder,workdir=$work/over/$folder-work" "/$folder"
done
export PATH=$cache/bin:$PATH KUBECONFIG=$work/kubeconfig
started=()
start() { # name, command...
	"${@:2}" >"$work/$1.log" 2>&1 &
	started+=("$1:$!")
}
finish() {
	status=$?
	if [ $status != 0 ]; then
		echo "--- why"
		for one in "${started[@]}"; do kill -0 "${one#*:}" 2>/dev/null || { echo "${one%:*} ended:"; tail -n 5 "$work/${one%:*}.log"; }; done
		kubectl get pods -A -o wide 2>/dev/null || true
		kubectl get events -A --field-selector type=Warning 2>/dev/null | tail -n 15 || true
		for pod in $(kubectl -n liquida get pods -o name 2>/dev/null); do echo "--- $pod"; kubectl -n liquida logs --all-containers --tail 8 "$pod" 2>&1 || true; done
	fi
	exit $status
}
trap finish EXIT
until_true() { # seconds, command...
	for _ in $(seq "$1"); do "${@:2}" >/dev/null 2>&1 && return; sleep 1; done
	fail "not within $1 s: ${*:2}"
}

say "control plane"
cd "$work"
openssl genrsa -out account.key 2048 2>/dev/null
openssl rsa -in account.key -pubout -out account.pub 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >tokens
cat >"$KUBECONFIG" <<-END
	{apiVersion: v1, kind: Config, current-context: here,
	 clusters: [{name: here, cluster: {server: "https://$node:6443", insecure-skip-tls-verify: true}}],
	 users: [{name: admin, user: {token: $token}}], contexts: [{name: here, context: {cluster: here, user: admin}}]}
END
start etcd server --data-dir "$work/etcd" --unsafe-no-fsync
start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --cert-dir="$work/certs" --advertise-address=$node --bind-address=$node \
	--service-cluster-ip-range=10.96.0.0/16 --token-auth-file=tokens --authorization-mode=Node,RBAC --kubelet-preferred-address-types=InternalIP \
	--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=account.pub --service-account-signing-key-file=account.key
until_true 120 kubectl get --raw /readyz
start controllers kube-controller-manager --kubeconfig="$KUBECONFIG" --service-account-private-key-file=account.key
start scheduler kube-scheduler --kubeconfig="$KUBECONFIG"
kubectl version

say "a node"
cat >containerd.toml <<-END
	version = 2
	root = "$work/containerd"
	state = "/run/liquida-containerd"
	[grpc]
	  address = "/run/liquida-containerd.sock"
	[plugins."io.containerd.grpc.v1.cri"]
	  sandbox_image = "stand-in/pause:1"
	  restrict_oom_score_adj = true # a sandbox's root may not lower it
	  [plugins."io.containerd.grpc.v1.cri".cni]
	    bin_dir = "/usr/lib/cni"
	    conf_dir = "$work/cni"
END
mkdir -p cni pods logs
echo '{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}' >cni/pods.conflist
start containerd containerd --config containerd.toml
group=/$(basename "$work")
for folder in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs -printf '%h\n'); do mkdir -p "$folder$group"; done
[ ! -e /sys/fs/cgroup/cpuset$group/cpuset.cpus ] || for file in cpus mems; do cat /sys/fs/cgroup/cpuset/cpuset.$file >"/sys/fs/cgroup/cpuset$group/cpuset.$file"; done
: >resolv.conf
cat >kubelet.yaml <<-END
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	failCgroupV1: false
	cgroupDriver: cgroupfs
	cgroupRoot: $group
	containerRuntimeEndpoint: unix:///run/liquida-containerd.sock
	clusterDNS: ["$node"]
	clusterDomain: cluster.local
	resolvConf: $work/resolv.conf
	authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
	authorization: {mode: AlwaysAllow}
	failSwapOn: false
	podLogsDir: $work/logs
	enforceNodeAllocatable: [none]
	imageGCHighThresholdPercent: 100
	syncFrequency: 10s
	oomScoreAdj: 0
	evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}
END
ctr() { command ctr --address /run/liquida-containerd.sock --namespace k8s.io "$@"; }
until_true 30 ctr version

# An image of Debian's files and what is in a folder, under one name or more.
base=sha256:$(sha256sum "$cache/bookworm.tar" | cut -d ' ' -f 1)
image() { # folder, entrypoint as JSON, name...
	local folder=$1 entrypoint=$2 names
	shift 2
	names=$(printf '"%s",' "$@")
	mkdir -p "$work/image"
	ln -sf "$cache/bookworm.tar" "$work/image/base.tar"
	tar -C "$folder" --owner=0 --group=0 -cf "$work/image/own.tar" .
	echo "{\"architecture\": \"$(go env GOARCH)\", \"os\": \"linux\", \"config\": {\"Entrypoint\": $entrypoint, \"Env\": [\"PATH=/usr/local/bin:/usr/bin:/bin\"]}, \"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"$base\", \"sha256:$(sha256sum "$work/image/own.tar" | cut -d ' ' -f 1)\"]}}" >"$work/image/config.json"
	echo "[{\"Config\": \"config.json\", \"RepoTags\": [${names%,}], \"Layers\": [\"base.tar\", \"own.tar\"]}]" >"$work/image/manifest.json"
	tar -C "$work/image" -chf "$work/image.tar" manifest.json config.json base.tar own.tar
	ctr images import "$work/image.tar" >/dev/null
	rm -rf "$work/image" "$work/image.tar"
}
image_of() { grep -rhoE "image: .*$1:[^ ]+" "$root/deploy/kustomize" | head -n 1 | sed 's/image: //; s/&image //'; }
mkdir -p contents/empty contents/liquida/usr/local/bin contents/tigerbeetle contents/statsd/bin
image contents/empty '["sleep", "infinity"]' stand-in/pause:1
cp programs/* contents/liquida/usr/local/bin/
image contents/liquida '[]' registry.example/liquida:local registry.example/liquida:second
cp "$VERIFY_TIGERBEETLE" contents/tigerbeetle/tigerbeetle
image contents/tigerbeetle '["tini", "--", "/tigerbeetle"]' "$(image_of tigerbeetle/tigerbeetle)"
cp "$cache/bin/statsd_exporter" contents/statsd/bin/
image contents/statsd '["/bin/statsd_exporter"]' "docker.io/$(image_of prom/statsd-exporter)"
rm -rf contents

start kubelet kubelet --config kubelet.yaml --kubeconfig "$KUBECONFIG" --root-dir "$work/kubelet" --cert-dir "$work/certs-kubelet" --node-ip $node --hostname-override node
start proxy kube-proxy --kubeconfig "$KUBECONFIG" --proxy-mode=iptables --hostname-override=node --cluster-cidr=10.244.0.0/16 --conntrack-max-per-core=0 --oom-score-adj=0
cat >Corefile <<-END
	.:53 {
	  bind $node
	  kubernetes cluster.local {
	    endpoint https://$node:6443
	    kubeconfig $KUBECONFIG
	  }
	}
END
start dns coredns -conf Corefile
until_true 60 kubectl wait --for=condition=Ready node/node --timeout=1s
kubectl get nodes

# ---- what stands in for a real cluster's other parts ---------------------------------------
# Three volumes on this machine's disk.
for i in 0 1 2; do
	mkdir -p volumes/$i
	chmod 777 volumes/$i
	kubectl create -f - >/dev/null <<-END
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: disk-$i}
		spec:
		  capacity: {storage: 50Gi}
		  accessModes: [ReadWriteOnce]
		  persistentVolumeReclaimPolicy: Retain
		  local: {path: $work/volumes/$i}
		  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
	END
done
# The embedded broker, under the names, the port and the secrets of Redpanda's chart.
cat >kafka.yaml <<-END
	apiVersion: v1
	kind: Service
	metadata: {name: redpanda, namespace: redpanda}
	spec: {clusterIP: None, selector: {app.kubernetes.io/name: redpanda}, ports: [{name: kafka, port: 9093}]}
	---
	apiVersion: v1
	kind: Pod
	metadata: {name: redpanda-0, namespace: redpanda, labels: {app.kubernetes.io/name: redpanda}}
	spec:
	  hostNetwork: true # it sends clients to the address on which it listens
	  containers:
	    - name: kafka
	      image: registry.example/liquida:local
	      args: [broker]
	      env:
	        - {name: BROKER_ADDRESS, value: "$node:9093"}
	        - {name: BROKER_DATA_DIR, value: /data/broker}
	        - {name: BROKER_ADMIN_PASSWORD_FILE, value: /keys/password}
	        - {name: BROKER_TLS_CERT_FILE, value: /keys/tls.crt}
	        - {name: BROKER_TLS_KEY_FILE, value: /keys/tls.key}
	      volumeMounts: [{name: keys, mountPath: /keys}, {name: data, mountPath: /data}]
	  volumes: [{name: keys, secret: {secretName: stand-in}}, {name: data, emptyDir: {}}]
END
mkdir -p stand-ins
cat >stand-ins/helm <<-END
	#!/bin/bash
	set -euo pipefail
	[ "\$1 \$2" = "install redpanda" ] || exit 0
	cd "$work"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=redpanda -keyout tls.key -out tls.crt \
		-addext subjectAltName=DNS:redpanda.redpanda.svc.cluster.local,IP:$node 2>/dev/null
	kubectl -n redpanda get secret redpanda-users -o go-template='{{index .data "users.txt" | base64decode}}' | cut -d : -f 2 >password
	kubectl -n redpanda create secret generic stand-in --from-file=password --from-file=tls.crt --from-file=tls.key
	kubectl -n redpanda create secret generic redpanda-default-root-certificate --from-file=tls.crt
	kubectl create -f kafka.yaml
	kubectl -n redpanda wait --for=condition=Ready pod/redpanda-0 --timeout 5m
END
printf '#!/bin/sh\n' >stand-ins/docker
chmod +x stand-ins/*
export PATH=$work/stand-ins:$PATH

# The manifests as they are, for one small node: one broker, replicas side by side and with less memory.
mkdir repository
cp -r "$root/deploy" repository/
cd repository
sed -i 's/^REPLICATION_FACTOR=.*/REPLICATION_FACTOR=1/' deploy/kustomize/settings.env
sed -i -E 's/(requests: \{cpu: )("1"|[0-9]+m)/\110m/; s/--cache-grid=512MiB/--cache-grid=128MiB/; s/3500Mi/2500Mi/g' deploy/kustomize/*.yaml deploy/kustomize/tigerbeetle/tigerbeetle.yaml
sed -i 's/requiredDuringSchedulingIgnoredDuringExecution/preferredDuringSchedulingIgnoredDuringExecution/; s/- {topologyKey: kubernetes.io\/hostname, labelSelector: \(.*\)}$/- {weight: 1, podAffinityTerm: {topologyKey: kubernetes.io\/hostname, labelSelector: \1}}/' deploy/kustomize/tigerbeetle/tigerbeetle.yaml

commands() { # of the section of README.md that has this title
	awk -v title="## $1" '$0 == title {on = 1; next} /^## / {on = 0} on && /^```sh$/ {code = 1; next} /^```$/ {code = 0} on && code' deploy/kustomize/README.md
}
[ "$(commands "From nothing" | wc -l)" -gt 20 ] || fail "README.md has no commands below \"From nothing\""

say "README.md, from nothing"
commands "From nothing" | bash -euxo pipefail
kubectl -n liquida get pods -o wide
kubectl -n liquida get services

# What an apply changes: the generation of every object that has one.
generations() { kubectl -n liquida get deployments,statefulsets,cronjobs,services,networkpolicies,poddisruptionbudgets -o jsonpath='{range .items[*]}{.kind}/{.metadata.name} {.metadata.generation}{"\n"}{end}'; }

say "apply again: nothing changes"
generations >"$work/before"
kubectl apply -k deploy/kustomize >/dev/null
generations | diff "$work/before" - || fail "a second apply changes objects"

say "another image and another setting"
sed -i 's/newTag: .*/newTag: second/' deploy/kustomize/kustomization.yaml
sed -i 's/^LOG_LEVEL=.*/LOG_LEVEL=debug/' deploy/kustomize/settings.env
kubectl apply -k deploy/kustomize
for one in deployment/producer deployment/bank-simulator statefulset/clearing-engine; do kubectl -n liquida rollout status $one --timeout 10m; done
kubectl -n liquida create job bootstrap-second --from=cronjob/bootstrap
kubectl -n liquida wait --for=condition=complete --timeout 5m job/bootstrap-second
kubectl -n liquida logs job/bootstrap-second | tail -n 3

audit() {
	kubectl -n liquida create job "$1" --from=cronjob/audit
	kubectl -n liquida wait --for=condition=complete --timeout 10m "job/$1" >/dev/null
	kubectl -n liquida logs "job/$1" | grep '^AUDIT CLEAN' || fail "the audit is not clean"
}
address() { kubectl -n liquida get pod "$1" -o jsonpath='{.status.podIP}'; }
ledger_ready() { [ "$(kubectl -n liquida get statefulset tigerbeetle -o jsonpath='{.status.readyReplicas}')" = 3 ]; }

say "a replica moves while payments flow"
kubectl -n liquida create job load-moving --from=cronjob/load
until_true 120 kubectl -n liquida wait --for=jsonpath='{.status.ready}'=1 job/load-moving --timeout=1s
before=$(address tigerbeetle-0)
kubectl -n liquida delete pod tigerbeetle-0 >/dev/null
until_true 300 ledger_ready
[ "$(address tigerbeetle-0)" != "$before" ] || fail "tigerbeetle-0 has its old address $before: nothing was shown"
echo "tigerbeetle-0 was at $before and is at $(address tigerbeetle-0)"
kubectl -n liquida wait --for=condition=complete --timeout 10m job/load-moving
audit audit-moved

say "a replica loses its data file: it must not start until somebody says how"
claimed=$(kubectl -n liquida get persistentvolumeclaim data-tigerbeetle-1 -o jsonpath='{.spec.volumeName}')
rm "$work/volumes/${claimed#disk-}/0_1.tigerbeetle"
kubectl -n liquida delete pod tigerbeetle-1 >/dev/null
refused() { kubectl -n liquida get pod tigerbeetle-1 -o jsonpath='{.status.initContainerStatuses[0]..message}' | grep -q 'nobody allows a new one'; }
until_true 120 refused
kubectl -n liquida get pod tigerbeetle-1
[ ! -e "$work/volumes/${claimed#disk-}/0_1.tigerbeetle" ] || fail "it has a data file"
commands "The ledger" | bash -euxo pipefail
until_true 300 ledger_ready
# Without the last one, the recovered replica is half of the majority.
kubectl -n liquida scale statefulset tigerbeetle --replicas 2
until_true 120 kubectl -n liquida wait --for=delete pod/tigerbeetle-2 --timeout=1s
audit audit-recovered

say "delete: volumes and secrets stay"
kubectl delete -k deploy/kustomize >/dev/null
kubectl -n liquida get persistentvolumeclaims,secrets --no-headers
[ "$(kubectl -n liquida get persistentvolumeclaims -o name | wc -l)" = 3 ] || fail "a volume is gone"
