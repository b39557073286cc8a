#!/usr/bin/env bash
# Checks whether `docker compose up` can work on this machine, before anything is pulled.
# Prints one line for each obstacle, and what to do about it. Changes nothing.
#
#   deploy/preflight.sh                                # for docker-compose.yml
#   deploy/preflight.sh deploy/compose/cluster.yml     # with an overlay
#
# STOP: a first run fails. NOTE: it works, with a limitation.
# Exit code: 0 nothing stops a first run, 1 something does, 2 wrong arguments.
#
# Needs no more than bash 3.2, which is what macOS has.
set -u
cd "$(dirname "$0")/.."
root=${PREFLIGHT_ROOT:-} # the tests put a folder in place of /

files=(docker-compose.yml)
for file in "$@"; do
	if [ ! -f "$file" ]; then
		echo "preflight: no file $file: name overlays of docker-compose.yml, or nothing" >&2
		exit 2
	fi
	files+=("$file")
done

stops=0
stop() { echo "STOP  $*"; stops=$((stops + 1)); }
note() { echo "NOTE  $*"; }
finish() {
	if [ $stops = 0 ]; then
		echo "preflight: nothing stops a first run: docker compose up -d --build --wait"
		exit 0
	fi
	echo "preflight: obstacles that stop a first run: $stops"
	exit 1
}
# at_least HAVE WANT: versions of numbers and dots; what follows the numbers does not count.
at_least() {
	awk -v have="$1" -v want="$2" 'BEGIN {
		sub(/^v/, "", have); sub(/[^0-9.].*/, "", have)
		h = split(have, a, "."); w = split(want, b, ".")
		for (i = 1; i <= (h > w ? h : w); i++) if (a[i] + 0 != b[i] + 0) exit !(a[i] + 0 > b[i] + 0)
		exit 0
	}'
}
gib() { awk -v kib="$1" 'BEGIN { printf "%.1f GiB", kib / 1048576 }'; }

# ---- Docker itself -----------------------------------------------------------------------
if ! command -v docker >/dev/null 2>&1; then
	stop "no docker command: install Docker Engine 23 or later, or Docker Desktop. Without Docker: make demo"
	finish
fi
compose=$(docker compose version --short 2>/dev/null) || compose=
if [ -z "$compose" ]; then
	stop "no docker compose: install the Compose plugin, 2.25.0 or later (docker-compose 1.x does not work)"
elif ! at_least "$compose" 2.25.0; then
	stop "docker compose $compose does not load the overlays (!override, and extends of a service with depends_on): update it to 2.25.0 or later"
fi
buildx=$(docker buildx version 2>/dev/null | awk '{ print $2 }') || buildx=
if [ -z "$buildx" ]; then
	stop "no docker buildx: without it Docker falls back to its old builder, which refuses our Dockerfile (RUN --mount): install the buildx plugin, 0.17 or later"
elif ! at_least "$buildx" 0.17.0; then
	stop "docker buildx $buildx is older than docker compose accepts: update it to 0.17 or later"
fi

info=$(docker info --format '{{.ServerVersion}}|{{.OperatingSystem}}|{{.Architecture}}|{{.NCPU}}|{{.MemTotal}}|{{.KernelVersion}}|{{.DockerRootDir}}|{{.MemoryLimit}}|{{.CPUCfsQuota}}|{{.SecurityOptions}}' 2>/dev/null) || info=
IFS='|' read -r server system architecture cpus memory kernel data_root memory_limit cpu_limit security <<-I
	$info
I
if [ -z "$server" ]; then
	stop "the Docker daemon does not answer: start it (docker info says why), or join the group docker: sudo usermod -aG docker \$USER"
	finish
fi

# Docker Desktop, Colima and the like run the daemon in a virtual machine. What this machine's
# /proc and disk say is then not about the daemon.
on_this_machine=yes
if [ "$(uname -s)" != Linux ] || [ "${system#*Docker Desktop}" != "$system" ] || [ "$(uname -r)" != "$kernel" ]; then
	on_this_machine=no
	note "Docker runs in a virtual machine here, or on another machine ($system, Linux $kernel). Every image exists for amd64 and arm64, but nobody of us has run this on macOS or Windows. Give the machine 6 GiB of memory and 15 GiB of disk"
fi
case "$architecture:${DOCKER_DEFAULT_PLATFORM:-}" in
aarch64:*amd64* | arm64:*amd64*)
	stop "DOCKER_DEFAULT_PLATFORM is $DOCKER_DEFAULT_PLATFORM on an ARM machine: emulation has no io_uring, and TigerBeetle needs it: unset DOCKER_DEFAULT_PLATFORM" ;;
esac

# ---- the kernel --------------------------------------------------------------------------
if ! at_least "$kernel" 5.6; then
	stop "Linux $kernel has too little of io_uring for TigerBeetle: use a kernel of 5.6 or later"
elif ! at_least "$kernel" 5.12; then
	note "Linux $kernel counts io_uring's memory as locked memory. If TigerBeetle or its clients end with ENOMEM, raise the daemon's limit (systemd: LimitMEMLOCK=infinity)"
fi
if [ $on_this_machine = yes ]; then
	io_uring=$(cat "$root/proc/sys/kernel/io_uring_disabled" 2>/dev/null) || io_uring=0
	io_uring_on="sudo sysctl kernel.io_uring_disabled=0"
else
	# Only a container sees the settings of Docker's machine. Any image of ours will do, if one is here: all but our
	# own programs' have a shell.
	io_uring=
	for image in $(sed -n 's|^ *image: \(.*/.*\)|\1|p' docker-compose.yml | sort -u); do
		docker image inspect "$image" >/dev/null 2>&1 || continue
		io_uring=$(docker run --rm --network none --entrypoint sh "$image" -c 'cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0' 2>/dev/null) || io_uring=
		io_uring_on="docker run --rm --privileged --entrypoint sh $image -c 'echo 0 >/proc/sys/kernel/io_uring_disabled'"
		break
	done
	if [ -z "$io_uring" ]; then
		note "cannot see whether io_uring is on in Docker's machine, because no image is here to ask it with: docker compose pull tigerbeetle, and run this again"
		io_uring=0
	fi
fi
if [ "$io_uring" != 0 ]; then
	stop "io_uring is off (kernel.io_uring_disabled = $io_uring, the default of RHEL 9 and its kin), and TigerBeetle needs it: $io_uring_on"
fi
if [ $on_this_machine = yes ]; then
	aio_max=$(cat "$root/proc/sys/fs/aio-max-nr" 2>/dev/null) || aio_max=
	aio=$(cat "$root/proc/sys/fs/aio-nr" 2>/dev/null) || aio=
	if [ -n "$aio_max" ] && [ -n "$aio" ] && [ $((aio_max - aio)) -lt 1027 ]; then
		stop "others use $aio of $aio_max asynchronous I/O requests (fs.aio-nr, fs.aio-max-nr), and Redpanda needs 1027: sudo sysctl fs.aio-max-nr=1048576"
	fi
	if [ "$architecture" = x86_64 ] && [ -r "$root/proc/cpuinfo" ]; then
		for flag in avx2 aes; do
			grep -qw "$flag" "$root/proc/cpuinfo" || stop "the processor has no $flag, which TigerBeetle is compiled for. On a virtual machine, pass the host's processor model through"
		done
	fi
fi

# ---- what Docker cannot do here ----------------------------------------------------------
case "$security" in
*name=rootless*) rootless=" (rootless Docker: let systemd delegate the controllers cpu and memory)" ;;
*) rootless= ;;
esac
[ "$memory_limit" = true ] || note "Docker cannot limit memory here, so the limits of the compose file do not hold$rootless"
[ "$cpu_limit" = true ] || note "Docker cannot limit processors here, so the limits of the compose file do not hold$rootless"
if [ -n "$rootless" ] && [ "$memory_limit:$cpu_limit" = true:true ]; then
	note "rootless Docker: it works, and the limits hold. The compose file locks no memory, which rootless Docker refuses"
fi
case "$security" in
*name=selinux*) note "SELinux is on: it works. The compose file relabels the files that it mounts (:z)" ;;
esac

# ---- room --------------------------------------------------------------------------------
if [ "$cpus" = 1 ]; then
	note "one processor: it runs, slowly. Start with 100 payments a second"
fi
if [ $((memory / 1024)) -lt 5767168 ]; then # 5.5 GiB: a machine "of 6 GiB" has a little less
	stop "Docker has $(gib $((memory / 1024))) of memory and the containers use 5 GiB: give it 6 GiB"
fi
if [ $on_this_machine = yes ]; then
	free=$(df -Pk "$data_root" 2>/dev/null | awk 'NR == 2 { print $4 }')
	if [ -z "$free" ]; then
		note "cannot see how much disk is free in $data_root: it must be 10 GiB"
	elif [ "$free" -lt 5242880 ]; then
		stop "$(gib "$free") free in $data_root: images, the build and the ledger's file take about 5 GiB the first time: free 10 GiB"
	elif [ "$free" -lt 10485760 ]; then
		note "$(gib "$free") free in $data_root: a first run takes about 5 GiB, and each payment 10 KB. Below 1 GiB Redpanda refuses to store anything"
	fi
fi

# ---- the repository's files --------------------------------------------------------------
# Containers run as users of their own and read these files as others. Docker Desktop maps
# the owner and needs nothing.
if [ $on_this_machine = yes ]; then
	mounted=$(sed -n 's|.*[ "\[]\(\./[^: ]*\):/.*|\1|p' "${files[@]}" | sort -u)
	# shellcheck disable=SC2086 # one word for each
	closed=$(find $mounted \( -type d ! -perm -o=rx -o -type f ! -perm -o=r \) 2>/dev/null | head -n 1)
	if [ -n "$closed" ]; then
		stop "containers cannot read $closed (cloned with umask 077?): chmod -R o+rX deploy proto"
	fi
fi

# ---- ports and addresses, unless we run already ------------------------------------------
if [ -z "$(docker ps -q --filter label=com.docker.compose.project=liquida 2>/dev/null)" ]; then
	for port in $(sed -n 's|.*127\.0\.0\.1:\([0-9]*\):[0-9]*".*|\1|p' "${files[@]}" | sort -un); do
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			stop "port $port of 127.0.0.1 is taken: stop what listens there (make down, if it is the stack without Docker)"
		fi
	done
fi
if [ -z "$(docker ps -aq --filter label=com.docker.compose.project=liquida 2>/dev/null)" ]; then
	net=${LIQUIDA_NET:-172.28.86}
	# overlaps A/N B/M: whether the two IPv4 networks share an address.
	overlaps() {
		awk -v a="$1" -v b="$2" '
			function number(text, part) { split(text, part, "."); return ((part[1] * 256 + part[2]) * 256 + part[3]) * 256 + part[4] }
			BEGIN {
				split(a, x, "/"); split(b, y, "/")
				size = 2 ^ (32 - (x[2] < y[2] ? x[2] : y[2]))
				exit int(number(x[1]) / size) != int(number(y[1]) / size)
			}'
	}
	while read -r name subnets; do
		for subnet in $subnets; do
			case "$subnet" in *:* | "") continue ;; esac # IPv6
			if overlaps "$subnet" "$net.0/24"; then
				stop "the subnet $net.0/24 is taken by the Docker network $name ($subnet): choose another with LIQUIDA_NET=10.99.3, or docker network rm $name"
				break
			fi
		done
	done <<-N
		$(docker network ls -q 2>/dev/null | xargs docker network inspect --format '{{.Name}}{{range .IPAM.Config}} {{.Subnet}}{{end}}' 2>/dev/null)
	N
	if [ $on_this_machine = yes ] && command -v ip >/dev/null 2>&1; then
		while read -r route _ device _; do
			case "$route" in */*) ;; *) continue ;; esac
			if overlaps "$route" "$net.0/24"; then
				note "this machine reaches $route through $device, and the subnet $net.0/24 hides a part of it: choose another with LIQUIDA_NET=10.99.3"
			fi
		done <<-R
			$(ip -4 route show 2>/dev/null | awk '!/dev (docker|br-)/ { for (i = 1; i < NF; i++) if ($i == "dev") print $1, "dev", $(i + 1) }')
		R
	fi
fi

finish
