#!/usr/bin/env bash
# Proves docker-compose.yml where no image can be pulled: a Docker daemon of its own, and
# stand-ins under the very names that the compose file uses, made from Debian packages and
# from what `make test` needs anyway. Then up, load, kill -9 of an engine, three engines,
# down and up, audit.
#
#   sudo deploy/verify-compose.sh          # Linux, about ten minutes, the first time longer
#
# All of it runs in network, mount and process namespaces of its own: bridges, firewall
# rules, ports, mounts and processes end with it, and nothing has to be put back. What stays
# is the cache: the Debian files and compose, in LIQUIDA_CACHE (default ~/.cache/liquida).
#
# Not proven: Redpanda and Grafana, which no package carries (Apache Kafka stands in for the
# one, the other is left out), and the official images' own file systems.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${LIQUIDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/liquida}/verify-compose
compose_version=v5.0.2
bridge_version=$(sed -n 's|.*image: prom/statsd-exporter:||p' docker-compose.yml)

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'verify-compose: %s\n' "$*" >&2; exit 1; }

# ---- outside: what needs a network ---------------------------------------------------------
if [ "${1:-}" != inside ]; then
	[ "$(uname -s)" = Linux ] || fail "needs Linux: it runs a Docker daemon of its own"
	[ "$(id -u)" = 0 ] || fail "needs root, for a Docker daemon of its own: sudo $0"
	missing=()
	for tool in dockerd:docker.io docker:docker.io debootstrap:debootstrap iptables:iptables unshare:util-linux ip:iproute2 mvn:maven curl:curl go:golang; do
		command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
	done
	[ ${#missing[@]} = 0 ] || fail "needs: apt-get install --no-install-recommends ${missing[*]}"

	mkdir -p "$cache"
	if [ ! -e "$cache/bookworm.tar" ]; then
		say "Debian's files, once"
		scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
		debootstrap --variant=minbase --include=tini,wget,prometheus,openjdk-17-jre-headless,gcc,libc6-dev bookworm "$scratch/root" >"$scratch/log" 2>&1 || { tail "$scratch/log"; fail "debootstrap failed"; }
		tar -C "$scratch/root" --exclude='./var/cache/apt/archives/*.deb' -cf "$cache/bookworm.tar.new" .
		mv "$cache/bookworm.tar.new" "$cache/bookworm.tar"
		rm -rf "$scratch"; trap - EXIT
	fi
	if [ ! -x "$cache/docker/cli-plugins/docker-compose" ]; then
		say "docker compose $compose_version, once"
		mkdir -p "$cache/docker/cli-plugins"
		CGO_ENABLED=0 GOFLAGS= GOBIN="$cache/docker/cli-plugins" go install "github.com/docker/compose/v5/cmd@$compose_version"
		mv "$cache/docker/cli-plugins/cmd" "$cache/docker/cli-plugins/docker-compose"
	fi
	if [ ! -d "$cache/kafka" ]; then
		say "Apache Kafka, once"
		rm -rf "$cache/maven"; cp -r deploy/kafka/maven "$cache/maven"
		(cd "$cache/maven" && mvn --quiet --batch-mode --strict-checksums dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=libs)
		(cd "$cache/maven/libs" && sha256sum --check --quiet ../jars.sha256) || fail "Kafka's jars are not those of deploy/kafka/maven/jars.sha256"
		mv "$cache/maven/libs" "$cache/kafka"
	fi
	say "what the image is built from"
	CGO_ENABLED=0 GOFLAGS= GOBIN="$cache" go install "github.com/prometheus/statsd_exporter@$bridge_version"
	tigerbeetle=$(go run ./deploy/cmd/tigerbeetle)
	go build -o "$cache/loadtest" ./loadtest
	# The modules that the programs need, as a folder that serves them: no network inside.
	GOMODCACHE="$cache/modules" GOFLAGS=-modcacherw GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" \
		go list -deps ./services/producer ./services/clearing-engine ./services/bank-simulator ./loadtest ./deploy/cmd/bootstrap ./deploy/cmd/ready >/dev/null

	work=$(mktemp -d /tmp/liquida-verify-XXXXXX)
	inside=
	# However this ends, Ctrl-C too: the namespaces and all that runs in them, then the daemon's
	# control groups, the one thing that no namespace ends, and its data.
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
	status=0
	# In the background, so that a signal to this shell is not kept until it ends.
	VERIFY_WORK=$work VERIFY_TIGERBEETLE=$tigerbeetle \
		unshare --net --mount --pid --fork --kill-child --mount-proc "$root/deploy/verify-compose.sh" inside &
	inside=$!
	wait "$inside" || status=$?
	inside=
	put_back
	[ $status = 0 ] || fail "FAILED (exit code $status)"
	say "VERIFIED: up, load, kill -9, three engines, chaos, down and up, audit; nothing is left but $cache"
	exit 0
fi

# ---- inside: namespaces of our own, no network --------------------------------------------
work=$VERIFY_WORK
ip link set lo up
# What the daemon writes outside of its folders (keys, sockets, plugins) lands in ours.
for folder in etc opt run; do
	mkdir -p "$work/over/$folder" "$work/over/$folder-work"
	mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/over/$folder,workdir=$work/over/$folder-work" "/$folder"
done
mkdir -p "$work/exec" "$work/bin"
# The client of the daemon's own package, if another is first on PATH: newer ones build only
# with a plugin that Debian does not have.
[ ! -x /usr/bin/docker ] || ln -s /usr/bin/docker "$work/bin/docker"
export PATH=$work/bin:$PATH
export DOCKER_HOST=unix://$work/docker.sock DOCKER_CONFIG=$cache/docker DOCKER_BUILDKIT=1 COMPOSE_PROGRESS=plain
dockerd --data-root "$work/root" --exec-root "$work/exec" --pidfile "$work/dockerd.pid" -H "$DOCKER_HOST" \
	--cgroup-parent "/$(basename "$work")" >"$work/dockerd.log" 2>&1 &
daemon=$!
finish() {
	status=$?
	if [ $status != 0 ]; then
		echo "--- why"
		docker ps -a 2>/dev/null || tail -n 20 "$work/dockerd.log"
		for name in bootstrap clearing-engine producer redpanda tigerbeetle; do
			echo "--- $name"; compose logs --no-color --tail 15 "$name" 2>/dev/null || true
		done
	fi
	docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1 || true
	kill "$daemon" 2>/dev/null && wait "$daemon" || true
	exit $status
}
trap finish EXIT
for _ in $(seq 100); do docker info >/dev/null 2>&1 && break; sleep 0.2; done
docker info >/dev/null 2>&1 || { tail -n 20 "$work/dockerd.log"; fail "the Docker daemon does not answer"; }

compose() { docker compose -f "$root/docker-compose.yml" -f "$root/deploy/compose/verify.yml" "$@"; }
image_of() { sed -n "s|^ *image: \(.*$1.*\)|\1|p" docker-compose.yml | head -n 1; }
pid_of() { docker inspect -f '{{.State.Pid}}' "$1"; }
prometheus() { curl -fsS "http://127.0.0.1:9090/api/v1/query" --data-urlencode "query=$1" | grep -o '"value":\[[^]]*\]' | sed 's/.*,"//; s/"\]//' | head -n 1; }
expect() { # what, query, value
	local got=
	for _ in $(seq 40); do
		got=$(prometheus "$2" || true)
		[ "$got" = "$3" ] && { printf '%-60s %s\n' "$1" "$got"; return; }
		sleep 1
	done
	fail "$1: Prometheus says '$got' to $2, and it must be $3"
}

say "stand-in images, under the compose file's names"
docker import "$cache/bookworm.tar" stand-in >/dev/null
stand_in() { # name; the Dockerfile comes on standard input, the files are in $work/context
	docker build -q -t "$1" -f - "$work/context" >/dev/null
	echo "$1"
}
mkdir "$work/context"
cp -r "$(go env GOROOT)" "$work/context/go"
cp -r "$cache/modules/cache/download" "$work/context/modules"
stand_in golang:1.26-bookworm <<-D
	FROM stand-in
	COPY go /usr/local/go
	COPY modules /modules
	ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPATH=/go GOPROXY=file:///modules GOSUMDB=off GOTOOLCHAIN=local
D
rm -rf "$work/context"; mkdir "$work/context"
stand_in gcr.io/distroless/base-debian12:nonroot <<-D
	FROM stand-in
	RUN useradd --uid 65532 nonroot
D
cp "$VERIFY_TIGERBEETLE" "$work/context/tigerbeetle"
stand_in "$(image_of tigerbeetle/tigerbeetle)" <<-D
	FROM stand-in
	COPY tigerbeetle /tigerbeetle
	ENTRYPOINT ["tini", "--", "/tigerbeetle"]
D
stand_in "$(image_of prom/prometheus)" <<-D
	FROM stand-in
	RUN mkdir /prometheus && chown 65534:65534 /prometheus
	ENTRYPOINT ["/usr/bin/prometheus"]
D
cp "$cache/statsd_exporter" "$work/context/"
stand_in "$(image_of prom/statsd-exporter)" <<-D
	FROM stand-in
	COPY statsd_exporter /bin/statsd_exporter
	ENTRYPOINT ["/bin/statsd_exporter"]
D
cp -r "$cache/kafka" "$root/deploy/compose/kafka.sh" "$work/context/"
stand_in "$(image_of redpandadata/redpanda)" <<-D
	FROM stand-in
	RUN useradd --uid 101 redpanda && mkdir -p /var/lib/redpanda/data && chown redpanda /var/lib/redpanda/data
	COPY kafka /kafka
	COPY --chmod=755 kafka.sh /usr/local/bin/kafka
	USER redpanda
D
rm -rf "$work/context"

say "the image"
docker build -q -t liquida:local "$root"

say "up"
compose up -d --no-build --pull never --wait --wait-timeout 240 >"$work/up" 2>&1 || { tail -n 15 "$work/up"; fail "up failed"; }
compose ps --format 'table {{.Service}}\t{{.Status}}'
[ -z "$(compose ps -q --status exited --status restarting clearing-engine producer bank-simulator redpanda tigerbeetle prometheus statsd-exporter)" ] || fail "a service is not running"

say "every container: health, limits, restarts, user, file system, ports"
for id in $(docker ps -q); do
	docker inspect -f '{{index .Config.Labels "com.docker.compose.service"}} health={{with .State.Health}}{{.Status}}{{else}}none{{end}} memory={{.HostConfig.Memory}} cpus={{.HostConfig.NanoCpus}} restart={{.HostConfig.RestartPolicy.Name}} user={{.Config.User}} read_only={{.HostConfig.ReadonlyRootfs}} security={{range .HostConfig.SecurityOpt}}{{.}},{{end}} dropped={{range .HostConfig.CapDrop}}{{.}},{{end}} ports={{range $p, $b := .NetworkSettings.Ports}}{{range $b}}{{.HostIp}},{{end}}{{end}}' "$id"
done | tee "$work/containers"
grep -v -E '^[a-z-]+ health=healthy memory=[1-9][0-9]* cpus=[1-9][0-9]* restart=unless-stopped user=[1-9a-z][^ ]* read_only=(true|false) security=(seccomp=unconfined,)?no-new-privileges=true,(seccomp=unconfined,)? dropped=ALL, ports=(127\.0\.0\.1,)*$' "$work/containers" && fail "the containers above are not as they must be"
grep -v '^redpanda ' "$work/containers" | grep read_only=false && fail "only Redpanda may write to its root"
grep -v -E '^(tigerbeetle|producer|clearing-engine) ' "$work/containers" | grep seccomp=unconfined && fail "only the ledger and its clients need io_uring"
expect "services up, Redpanda's own metrics aside" 'count(up{job!="redpanda"} == 1)' 5
expect "TigerBeetle's status, through the bridge" 'max(tb_replica_status)' 0
expect "needs that are not met" 'count(pix_need_met == 0) or vector(0)' 0

say "locks: who does not say who he is, or says it with another's password"
locked() { # variable=value...
	if compose run --rm -T --no-deps "${@/#/-e}" loadtest audit >"$work/locks" 2>&1; then fail "Kafka let in $*"; fi
	grep -o 'no broker of KAFKA_BROKERS answers.*' "$work/locks" || { cat "$work/locks"; fail "the audit does not say that Kafka keeps it out"; }
}
locked KAFKA_SASL_USER= KAFKA_SASL_PASSWORD_FILE=
locked KAFKA_SASL_USER=admin

say "load, and kill -9 of the engine's process"
load() { compose run --rm -T --no-deps loadtest run --rate 200 --duration "$1" --mix no-waits --allow AB03 --drain-timeout 60s 2>&1 | tail -n 4; }
load 40s >"$work/load" & loading=$!
sleep 15
engine=$(compose ps -q clearing-engine)
kill -9 "$(pid_of "$engine")"
sleep 1
wait "$loading" || { cat "$work/load"; fail "the load failed"; }
cat "$work/load"; grep -q 'LOAD PASSED' "$work/load" || fail "the load did not pass"
[ "$(docker inspect -f '{{.RestartCount}}' "$engine")" = 1 ] || fail "the engine was not restarted once"
docker logs "$engine" 2>&1 | grep '"msg":"started"' | grep -q "\"instance\":\"${engine:0:12}\"" || fail "the engine's slot is not its container's name"
expect "centavos missing" 'max(abs(pix_books_difference_centavos)) + max(abs(pix_conservation_difference_centavos))' 0

say "three engines"
compose up -d --no-build --pull never --scale clearing-engine=3 --wait --wait-timeout 120 >/dev/null 2>&1 || fail "three engines do not become ready"
expect "engines that Prometheus finds" 'count(up{job="clearing-engine"} == 1)' 3
expect "partitions owned" 'sum(pix_partitions_owned)' 16
load 20s >"$work/load" || true
cat "$work/load"; grep -q 'LOAD PASSED' "$work/load" || fail "the load on three engines did not pass"

say "chaos"
COMPOSE_FILE=docker-compose.yml:deploy/compose/verify.yml "$cache/loadtest" chaos --on compose --seed 1 --duration 40s --rate 100 --dir "$work/chaos" >"$work/chaos.log" 2>&1 || { tail -n 60 "$work/chaos.log"; fail "chaos found something"; }
tail -n 6 "$work/chaos.log"

say "down, up, audit"
compose down >/dev/null 2>&1
[ -z "$(docker ps -aq)" ] || fail "down left containers"
compose up -d --no-build --pull never --wait --wait-timeout 180 >/dev/null 2>&1 || fail "it does not come up again"
compose run --rm -T --no-deps loadtest audit | tee "$work/audit" | tail -n 12
grep -q '^AUDIT CLEAN' "$work/audit" || fail "the audit did not pass"

say "down -v"
compose --profile loadtest down -v >/dev/null 2>&1
[ -z "$(docker ps -aq)$(docker volume ls -q)" ] || fail "down -v left something"
