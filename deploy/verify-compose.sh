#!/usr/bin/env bash
# Proves docker-compose.yml where no image can be pulled: runs the README's own command with a
# Docker daemon of its own, and stand-ins under the names that the compose file uses. Twice:
# with a broker that behaves like Redpanda in Redpanda's place, and with Apache Kafka.
#
#   sudo deploy/verify-compose.sh                  # Linux, half an hour, the first time longer
#   sudo deploy/verify-compose.sh apache           # only with Apache Kafka; or redpanda-like
#
# The daemon, compose and buildx are the newest that the Go module proxy has whole: see the
# pins below. Docker Engine 29 is made from tags like the daemon's v2.0.0-beta.24 (moby pull
# request 52419: beta.10 became 29.4.1). The docker command on PATH may be older.
#
# All of it runs in network, mount and process namespaces of its own: bridges, firewall rules,
# ports, mounts and processes end with it. Only the cache stays, in LIQUIDA_CACHE (default
# ~/.cache/liquida): Debian's files, the programs and Kafka's jars.
#
# Not proven: Redpanda and Grafana, which no package carries, and the file systems of the
# official images.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${LIQUIDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/liquida}/verify-compose
debian=trixie
packages=tini,wget,curl,busybox,socat,openjdk-21-jre-headless,gcc,libc6-dev
files=$cache/$debian-$(cksum <<<"$packages" | cut -d ' ' -f 1).tar

# What is built from the module proxy: the program, its package, its version, build tags.
programs="
dockerd                 github.com/moby/moby/v2/cmd/dockerd                         v2.0.0-beta.24
docker-proxy            github.com/moby/moby/v2/cmd/docker-proxy                    v2.0.0-beta.24
containerd              github.com/containerd/containerd/v2/cmd/containerd          v2.4.2
containerd-shim-runc-v2 github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 v2.4.2
runc                    github.com/opencontainers/runc                              v1.5.2  seccomp
docker-compose          github.com/docker/compose/v5/cmd                            v5.5.1
oldest-compose          github.com/docker/compose/v2/cmd                            v2.25.0
docker-buildx           github.com/docker/buildx/cmd/buildx                         v0.37.2
prometheus              github.com/prometheus/prometheus/cmd/prometheus             $(sed -n 's|.*image: prom/prometheus:v3\.|v0.3|p' docker-compose.yml) remove_all_sd,enable_dns_sd
statsd_exporter         github.com/prometheus/statsd_exporter                       $(sed -n 's|.*image: prom/statsd-exporter:||p' docker-compose.yml)
"

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'verify-compose: %s\n' "$*" >&2; exit 1; }

# ---- outside: what needs a network ---------------------------------------------------------
if [ "${1:-}" != inside ]; then
	kinds=${*:-redpanda-like apache}
	for kind in $kinds; do
		case "$kind" in redpanda-like | apache) ;; *) fail "no broker $kind: redpanda-like, apache, or nothing for both" ;; esac
	done
	[ "$(uname -s)" = Linux ] || fail "needs Linux: it runs a Docker daemon of its own"
	[ "$(id -u)" = 0 ] || fail "needs root, for a Docker daemon of its own: sudo $0"
	missing=()
	for tool in docker:docker.io debootstrap:debootstrap iptables:iptables unshare:util-linux nsenter:util-linux ip:iproute2 mvn:maven curl:curl go:golang gcc:gcc pkg-config:pkg-config; do
		command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
	done
	pkg-config --exists libseccomp 2>/dev/null || missing+=(libseccomp-dev)
	[ ${#missing[@]} = 0 ] || fail "needs: apt-get install --no-install-recommends ${missing[*]}"

	mkdir -p "$cache/programs"
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	while read -r program package version tags; do
		[ -n "$program" ] || continue
		[ ! -x "$cache/programs/$program-$version" ] || continue
		say "$program $version, once"
		# In a module of its own: some of them have exclude lines, which go install refuses.
		mkdir "$scratch/module"
		(
			cd "$scratch/module"
			go mod init scratch && go get "$package@$version"
			[ "$program" = runc ] && cgo=1 || cgo=0
			# compose reads buildx' version, and the preflight that of compose.
			CGO_ENABLED=$cgo GOFLAGS="-mod=mod -buildvcs=false" go build -tags "$tags" -o "$scratch/program" -ldflags "-s -w \
				-X github.com/moby/moby/v2/dockerversion.Version=$version \
				-X github.com/docker/compose/v5/internal.Version=$version \
				-X github.com/docker/buildx/version.Version=$version" "$package"
		) >"$scratch/log" 2>&1 || { tail -n 20 "$scratch/log"; fail "cannot build $program $version"; }
		mv "$scratch/program" "$cache/programs/$program-$version"
		rm -rf "$scratch/module"
	done <<<"$programs"
	if [ ! -e "$files" ]; then
		say "Debian's files, once"
		debootstrap --variant=minbase --include="$packages" $debian "$scratch/root" >"$scratch/log" 2>&1 || { tail "$scratch/log"; fail "debootstrap failed"; }
		tar -C "$scratch/root" --exclude='./var/cache/apt/archives/*.deb' -cf "$files.new" .
		mv "$files.new" "$files"
	fi
	rm -rf "$scratch"
	trap - EXIT
	if [ ! -d "$cache/kafka" ]; then
		say "Apache Kafka, once"
		rm -rf "$cache/maven"; cp -r deploy/kafka/maven "$cache/maven"
		(cd "$cache/maven" && mvn --quiet --batch-mode --strict-checksums dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=libs)
		(cd "$cache/maven/libs" && sha256sum --check --quiet ../jars.sha256) || fail "Kafka's jars are not those of deploy/kafka/maven/jars.sha256"
		mv "$cache/maven/libs" "$cache/kafka"
	fi
	say "what the stand-ins and the image are made of"
	tigerbeetle=$(go run ./deploy/cmd/tigerbeetle)
	CGO_ENABLED=0 go build -o "$cache/broker" ./deploy/cmd/broker
	# The modules that the programs need, as a folder that serves them: there is no network inside.
	GOMODCACHE="$cache/modules" GOFLAGS=-modcacherw GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" \
		go list -deps ./services/producer ./services/clearing-engine ./services/bank-simulator ./loadtest ./deploy/cmd/bootstrap ./deploy/cmd/ready >/dev/null

	work=$(mktemp -d /tmp/liquida-verify-XXXXXX)
	inside=
	# However this ends, Ctrl-C too: ends the namespaces and all that runs in them, then removes
	# the daemon's control groups, which no namespace ends, and its data.
	put_back() {
		trap - EXIT
		if [ -n "$inside" ]; then
			kill -KILL "$inside" 2>/dev/null || true
			wait "$inside" 2>/dev/null || true
		fi
		local leftover=
		for _ in $(seq 50); do # killed processes need a moment to be gone
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
	# In the background, so that a signal reaches this shell before it ends.
	VERIFY_WORK=$work VERIFY_TIGERBEETLE=$tigerbeetle VERIFY_KINDS=$kinds \
		unshare --net --mount --pid --fork --kill-child --mount-proc "$root/deploy/verify-compose.sh" inside &
	inside=$!
	wait "$inside" || status=$?
	inside=
	put_back
	[ $status = 0 ] || fail "FAILED (exit code $status)"
	say "VERIFIED with ${kinds// / and }: preflight, up --build, networks, passwords, load, kill -9, three engines, deaths of containers, a change of the code, down and up, audit"
	exit 0
fi

# ---- inside: namespaces of our own, no network ---------------------------------------------
work=$VERIFY_WORK
ip link set lo up
# What the daemon writes outside its folders (keys, sockets, plugins) lands in ours.
for folder in etc opt run; do
	mkdir -p "$work/over/$folder" "$work/over/$folder-work"
	mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/over/$folder,workdir=$work/over/$folder-work" "/$folder"
done
mkdir -p "$work/exec" "$work/bin" "$work/docker/cli-plugins" "$work/src"
while read -r program _ version _; do
	[ -n "$program" ] || continue
	case "$program" in
	docker-compose | docker-buildx) ln -s "$cache/programs/$program-$version" "$work/docker/cli-plugins/$program" ;;
	*) ln -s "$cache/programs/$program-$version" "$work/bin/$program" ;;
	esac
done <<<"$programs"
export PATH=$work/bin:$PATH
export DOCKER_HOST=unix://$work/docker.sock DOCKER_CONFIG=$work/docker COMPOSE_PROGRESS=plain
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
for _ in $(seq 150); do docker info >/dev/null 2>&1 && break; sleep 0.2; done
docker info >/dev/null 2>&1 || { tail -n 20 "$work/dockerd.log"; fail "the Docker daemon does not answer"; }

# From here on in a copy, because a later step changes the code.
tar -C "$root" --exclude=./.git --exclude=./.cache --exclude=./.stack --exclude=./bin -c . | tar -C "$work/src" -x
cd "$work/src"
export COMPOSE_FILE=docker-compose.yml
compose() { docker compose "$@"; }
image_of() { sed -n "s|^ *image: \(.*$1.*\)|\1|p" docker-compose.yml | head -n 1; }
container() { compose ps -q "$1" | head -n 1; }
pid_of() { docker inspect -f '{{.State.Pid}}' "$1"; }
prometheus() { curl -fsS "http://127.0.0.1:9090/api/v1/query" --data-urlencode "query=$1" | grep -o '"value":\[[^]]*\]' | sed 's/.*,"//; s/"\]//' | head -n 1; }
told() { printf '%-60s %s\n' "$1" "$2"; }
expect() { # what, query, value
	local got=
	for _ in $(seq 60); do
		got=$(prometheus "$2" || true)
		[ "$got" = "$3" ] && { told "$1" "$got"; return; }
		sleep 1
	done
	fail "$1: Prometheus says '$got' to $2, and it must be $3"
}
# The README's command, as it stands there.
up=$(sed -n 's/.*`\(docker compose up -d[^`]*\)`.*/\1/p' README.md | head -n 1)
grep -qxF "#   $up" docker-compose.yml || fail "README.md and docker-compose.yml do not name the same command: '$up'"
up() { $up "$@" >"$work/up" 2>&1 || { tail -n 25 "$work/up"; fail "$up $* failed"; }; }

say "$(docker version --format 'Docker {{.Server.Version}} (API {{.Server.APIVersion}}), client {{.Client.Version}}'), compose $(docker compose version --short), $(docker buildx version | awk '{ print "buildx " $2 }'), $(docker info --format '{{.Driver}} on cgroup v{{.CgroupVersion}}')"

say "overlays, parsed only, also by the oldest Compose that may be used"
grep -qF "\"\$compose\" $(sed -n 's|^oldest-compose.* v||p' <<<"$programs");" deploy/preflight.sh || fail "preflight.sh allows another Compose than the oldest here"
for overlay in cluster console; do
	for compose in "docker compose" oldest-compose; do
		KAFKA_PASSWORD=none $compose -f docker-compose.yml -f deploy/compose/$overlay.yml config -q || fail "$compose refuses the overlay $overlay"
	done
	deploy/preflight.sh deploy/compose/$overlay.yml | sed "s/^/$overlay: /"
done

say "stand-ins, under the compose file's names"
docker import "$files" stand-in >/dev/null
stand_in() { # name; the Dockerfile is on standard input, the files are in $work/context
	docker build -q -t "$1" -f - "$work/context" >/dev/null
	rm -rf "$work/context"
	mkdir "$work/context"
	echo "$1"
}
mkdir "$work/context"
cp -r "$(go env GOROOT)" "$work/context/go"
cp -r "$cache/modules/cache/download" "$work/context/modules"
stand_in "$(sed -n 's/^FROM \(.*\) AS build/\1/p' Dockerfile)" <<-D
	FROM stand-in
	COPY go /usr/local/go
	COPY modules /modules
	ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPATH=/go GOPROXY=file:///modules GOSUMDB=off GOTOOLCHAIN=local
D
stand_in "$(sed -n 's/^FROM \(.*:nonroot\)/\1/p' Dockerfile)" <<-D
	FROM stand-in
	RUN useradd --uid 65532 nonroot
D
cp "$VERIFY_TIGERBEETLE" "$work/context/tigerbeetle"
stand_in "$(image_of tigerbeetle/tigerbeetle)" <<-D
	FROM stand-in
	COPY tigerbeetle /tigerbeetle
	ENTRYPOINT ["tini", "--", "/tigerbeetle"]
D
cp -L "$work/bin/prometheus" "$work/context/"
stand_in "$(image_of prom/prometheus)" <<-D
	FROM stand-in
	COPY prometheus /bin/prometheus
	RUN mkdir /prometheus && chown 65534:65534 /prometheus
	ENTRYPOINT ["/bin/prometheus"]
D
cp -L "$work/bin/statsd_exporter" "$work/context/"
stand_in "$(image_of prom/statsd-exporter)" <<-D
	FROM stand-in
	COPY statsd_exporter /bin/statsd_exporter
	ENTRYPOINT ["/bin/statsd_exporter"]
D
# Answers its health check, and nothing else.
stand_in "$(image_of grafana/grafana)" <<-D
	FROM stand-in
	RUN useradd --uid 472 --gid 0 grafana && mkdir -p /var/lib/grafana /www/api && echo '{"database":"ok"}' >/www/api/health && chown grafana /var/lib/grafana
	USER grafana
	ENTRYPOINT ["busybox", "httpd", "-f", "-p", "3000", "-h", "/www"]
D
for kind in $VERIFY_KINDS; do
	cp -r "$cache/kafka" "$cache/broker" deploy/compose/rpk.sh "$work/context/"
	stand_in "stand-in:$kind" <<-D
		FROM stand-in
		RUN useradd --uid 101 redpanda && mkdir -p /var/lib/redpanda/data /etc/redpanda && chown redpanda /var/lib/redpanda/data /etc/redpanda
		COPY kafka /kafka
		COPY broker /usr/local/bin/broker
		COPY --chmod=755 rpk.sh /usr/local/bin/rpk
		ENV STAND_IN=$kind
		USER redpanda
	D
done

# reach FROM PID HOST PORT open|closed: whether the container of that process can connect.
reach() {
	local got=closed
	nsenter --net --target "$2" timeout 3 bash -c "exec 3<>/dev/tcp/$3/$4" 2>/dev/null && got=open
	told "$1 to $5 $3:$4" "$got"
	[ "$got" = "$6" ] || fail "$1 to $5 $3:$4 is $got, and must be $6"
}
networks() {
	local ledger statsd kafka metrics engine who
	address() { docker inspect -f "{{(index .NetworkSettings.Networks \"liquida_$2\").IPAddress}}" "$(container "$1")"; }
	ledger=$(address tigerbeetle ledger); statsd=$(address tigerbeetle statsd)
	kafka=$(address redpanda kafka); metrics=$(address redpanda metrics); engine=$(address clearing-engine metrics)
	for who in grafana prometheus statsd-exporter; do
		reach "$who" "$(pid_of "$(container $who)")" "$ledger" 3001 the-ledger closed
		reach "$who" "$(pid_of "$(container $who)")" "$statsd" 3001 the-ledger closed
		for port in 9092 19092 33145; do
			reach "$who" "$(pid_of "$(container $who)")" "$kafka" $port the-broker closed
			reach "$who" "$(pid_of "$(container $who)")" "$metrics" $port the-broker closed
		done
		reach "$who" "$(pid_of "$(container $who)")" "$engine" 9100 an-engine open
	done
	reach bank-simulator "$(pid_of "$(container bank-simulator)")" "$ledger" 3001 the-ledger closed
	reach bank-simulator "$(pid_of "$(container bank-simulator)")" "$kafka" 9092 the-broker open
	for who in producer clearing-engine; do
		reach "$who" "$(pid_of "$(container $who)")" "$ledger" 3001 the-ledger open
		reach "$who" "$(pid_of "$(container $who)")" "$kafka" 9092 the-broker open
		reach "$who" "$(pid_of "$(container $who)")" "$kafka" 33145 the-broker open # or closed above would mean nothing
	done
}

load() { compose run --rm -T --no-deps loadtest run --rate 200 --duration "$1" --mix no-waits --allow AB03,LQ13 --drain-timeout 60s 2>&1 | tail -n 4; }

verify() { # kind
	docker tag "stand-in:$1" "$(image_of redpandadata/redpanda)"

	say "$1: preflight"
	deploy/preflight.sh || fail "the preflight finds an obstacle here"

	say "$1: loadtest on a fresh clone: builds the image, starts what it needs, audits empty books"
	docker image rm liquida:local >/dev/null 2>&1 || true
	compose run --rm -T loadtest audit >"$work/audit" 2>&1 || { tail -n 30 "$work/audit"; fail "docker compose run --rm loadtest audit failed"; }
	grep '^AUDIT CLEAN' "$work/audit" || { tail -n 30 "$work/audit"; fail "the audit of empty books is not clean"; }
	compose down -v >/dev/null 2>&1

	say "$1: $up"
	docker image rm liquida:local >/dev/null 2>&1 || true
	up
	grep -c 'naming to .*liquida:local' "$work/up" | { read -r builds; told "exports of liquida:local" "$builds"; [ "$builds" -ge 1 ]; } || { cat "$work/up"; fail "the image was not built"; }
	compose ps --format 'table {{.Service}}\t{{.Status}}'
	[ -z "$(compose ps -q --status exited --status restarting clearing-engine producer bank-simulator redpanda tigerbeetle prometheus statsd-exporter grafana)" ] || fail "a service is not running"

	say "$1: every container: health, limits, restarts, user, file system, ports"
	for id in $(docker ps -q); do
		docker inspect -f '{{index .Config.Labels "com.docker.compose.service"}} health={{with .State.Health}}{{.Status}}{{else}}none{{end}} memory={{.HostConfig.Memory}} cpu_quota={{.HostConfig.CpuQuota}} restart={{.HostConfig.RestartPolicy.Name}} user={{.Config.User}} read_only={{.HostConfig.ReadonlyRootfs}} security={{range .HostConfig.SecurityOpt}}{{.}},{{end}} dropped={{range .HostConfig.CapDrop}}{{.}},{{end}} ports={{range $p, $b := .NetworkSettings.Ports}}{{range $b}}{{.HostIp}},{{end}}{{end}}' "$id"
	done | tee "$work/containers"
	grep -v -E '^[a-z-]+ health=healthy memory=[1-9][0-9]* cpu_quota=[1-9][0-9]* restart=unless-stopped user=[1-9a-z][^ ]* read_only=(true|false) security=(seccomp=unconfined,)?no-new-privileges=true,(seccomp=unconfined,)? dropped=ALL, ports=(127\.0\.0\.1,)*$' "$work/containers" && fail "the containers above are not as they must be"
	grep -v '^redpanda ' "$work/containers" | grep read_only=false && fail "only Redpanda may write to its root file system"
	grep -v -E '^(tigerbeetle|producer|clearing-engine) ' "$work/containers" | grep seccomp=unconfined && fail "only the ledger and its clients need io_uring"
	if [ "$(docker info -f '{{.SwapLimit}}')" = true ]; then
		docker inspect -f '{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}' "$(container tigerbeetle)" | { read -r memory swap; told "the ledger's memory, and with swap" "$memory $swap"; [ "$memory" = "$swap" ]; } || fail "the ledger may be swapped out"
	fi
	expect "services up, Redpanda's own metrics aside" 'count(up{job!="redpanda"} == 1)' 5
	expect "TigerBeetle's status, through the exporter" 'max(tb_replica_status)' 0
	expect "needs that are not met" 'count(pix_need_met == 0) or vector(0)' 0

	say "$1: networks"
	networks

	say "$1: Kafka refuses a client without a user, and one with another's password"
	refused() { # variable=value...
		if compose run --rm -T --no-deps "${@/#/-e}" loadtest audit >"$work/refused" 2>&1; then fail "Kafka let in $*"; fi
		grep -o 'no broker of KAFKA_BROKERS answers.*' "$work/refused" || { cat "$work/refused"; fail "the audit does not say that Kafka refuses it"; }
	}
	refused KAFKA_SASL_USER= KAFKA_SASL_PASSWORD_FILE=
	refused KAFKA_SASL_USER=admin

	say "$1: load, and kill -9 of the engine's process"
	load 40s >"$work/load" & loading=$!
	sleep 15
	engine=$(container clearing-engine)
	kill -9 "$(pid_of "$engine")"
	sleep 1
	wait "$loading" || { cat "$work/load"; fail "the load failed"; }
	cat "$work/load"; grep -q 'LOAD PASSED' "$work/load" || fail "the load did not pass"
	[ "$(docker inspect -f '{{.RestartCount}}' "$engine")" = 1 ] || fail "the engine was not restarted once"
	docker logs "$engine" 2>&1 | grep '"msg":"started"' | grep -q "\"instance\":\"${engine:0:12}\"" || fail "the engine's instance is not its container's name"
	expect "centavos missing" 'max(abs(pix_books_difference_centavos)) + max(abs(pix_conservation_difference_centavos))' 0

	say "$1: three engines"
	docker compose up -d --scale clearing-engine=3 --wait >"$work/up" 2>&1 || { tail "$work/up"; fail "three engines do not become ready"; }
	expect "engines that Prometheus finds" 'count(up{job="clearing-engine"} == 1)' 3
	expect "partitions owned" 'sum(pix_partitions_owned)' 16
	load 20s >"$work/load" || true
	cat "$work/load"; grep -q 'LOAD PASSED' "$work/load" || fail "the load on three engines did not pass"

	say "$1: containers die and freeze under load"
	load 40s >"$work/load" & loading=$!
	for service in bank-simulator producer redpanda tigerbeetle; do
		sleep 5
		broken=$(container $service)
		docker kill "$broken" >/dev/null # docker does not restart what it killed
		sleep 1
		docker start "$broken" >/dev/null
	done
	sleep 5
	docker pause "$engine" >/dev/null
	sleep 6 # longer than its session: a zombie when it continues
	docker unpause "$engine" >/dev/null
	wait "$loading" || { cat "$work/load"; fail "the load failed"; }
	cat "$work/load"; grep -q 'LOAD PASSED' "$work/load" || fail "the load did not pass while containers died"

	say "$1: a change of the code, and up again"
	images() { docker inspect -f '{{.Image}}' $(compose ps -q producer clearing-engine bank-simulator) | sort -u; }
	before=$(images)
	echo "func init() { println(\"changed for $1\") }" >>services/producer/main.go
	up
	after=$(images)
	[ "$(wc -l <<<"$after")" = 1 ] && [ "$after" != "$before" ] || fail "the services run on $after, before the change on $before"
	compose logs producer 2>&1 | grep -q "changed for $1" || fail "the producer runs without the change"
	told "images of the services, before and after" "${before:7:12} ${after:7:12}"

	say "$1: down, up, audit"
	compose down >/dev/null 2>&1
	[ -z "$(docker ps -aq)" ] || fail "down left containers"
	up
	compose run --rm -T --no-deps loadtest audit 2>"$work/problems" | tee "$work/audit" | tail -n 9 || { tail "$work/problems"; fail "the audit failed"; }
	grep -q '^AUDIT CLEAN' "$work/audit" || fail "the audit did not pass"

	say "$1: a copy of all volumes, and back, with the commands of docs/backup.md"
	commands() { awk -v wanted="$1" '/^## / { here = $0 == "## With Docker" } /^```$/ { inside = 0 } here && inside && block == wanted; here && /^```sh$/ { block++; inside = 1 }' docs/backup.md; }
	for block in 1 2; do
		[ -n "$(commands $block)" ] || fail "docs/backup.md has no block $block of commands for Docker"
		[ $block = 1 ] || load 5s >"$work/load" # what comes after the copy is gone afterwards
		commands $block >"$work/block"
		# In a shell of its own, and the second with the variable of the first.
		copy=$(cat "$work/copy" 2>/dev/null) bash -ec '. "$1"; echo "$copy" >"$2"' backup "$work/block" "$work/copy" >"$work/backup" 2>&1 || { tail -n 30 "$work/backup"; fail "the commands of docs/backup.md fail"; }
	done
	grep '^AUDIT CLEAN' "$work/backup" || { tail -n 30 "$work/backup"; fail "the audit of the copy is not clean"; }

	say "$1: a lost ledger is not made anew"
	compose down >/dev/null 2>&1
	docker volume rm liquida_tigerbeetle >/dev/null
	if $up >"$work/up" 2>&1; then fail "up made a new ledger in the place of the lost one"; fi
	compose logs ledger-format 2>&1 | grep "replica 0 is gone. It is not made anew" || fail "ledger-format does not say that the file is gone"
	[ -z "$(compose ps -q --status running producer clearing-engine bootstrap)" ] || fail "services run without their ledger"

	say "$1: of three replicas all files are made, and a lost one is not made anew"
	compose --profile loadtest down -v >/dev/null 2>&1
	cluster() { docker compose -f docker-compose.yml -f deploy/compose/cluster.yml "$@"; }
	cluster run -T --rm ledger-format >/dev/null 2>&1 || fail "the three files are not made"
	cluster run -T --rm --user 1000:1000 --entrypoint rm ledger-format /data/1/0_1.tigerbeetle >/dev/null 2>&1
	cluster run -T --rm ledger-format 2>&1 | grep "replica 1 is gone" || fail "a lost replica's file is not noticed"
	if cluster run -T --rm --no-deps tigerbeetle-1 >"$work/replica" 2>&1; then fail "a replica starts without its file"; fi
	grep "replica 1 is gone" "$work/replica" || { cat "$work/replica"; fail "a replica does not say that its file is gone"; }
	cluster down -v >/dev/null 2>&1

	say "$1: down -v"
	compose --profile loadtest down -v >/dev/null 2>&1
	[ -z "$(docker ps -aq)$(docker volume ls -q)$(docker network ls -q --filter label=com.docker.compose.project=liquida)" ] || fail "down -v left something"
}
for kind in $VERIFY_KINDS; do verify "$kind"; done
