#!/bin/bash
# Stands in for rpk, and so for Redpanda, in deploy/verify-compose.sh. It takes the commands
# that docker-compose.yml runs, refuses flags that rpk does not have, and starts another broker
# with the same listeners, data folder, first user and cluster settings:
#
#   STAND_IN=redpanda-like  the embedded broker, told to behave like Redpanda
#   STAND_IN=apache         Apache Kafka
set -euo pipefail
config=/etc/redpanda/redpanda.yaml
data=/var/lib/redpanda/data
fail() { echo "rpk (stand-in): $*" >&2; exit 1; }
# setting NAME DEFAULT: what .bootstrap.yaml says, or the default.
setting() { value=$(sed -n "s/^$1: *\([^ #]*\).*/\1/p" /etc/redpanda/.bootstrap.yaml); echo "${value:-${2:-}}"; }
# listener LIST NAME: host:port of internal://host:port,external://host:port.
listener() { tr , '\n' <<<"$1" | sed -n "s|^$2://||p"; }

case "${1:-} ${2:-}" in
"redpanda mode")
	[ "${3:-}" = production ] || fail "mode ${3:-}: only production keeps what was acknowledged"
	echo "developer_mode: false" >$config # as rpk does: the file system must let it
	exit 0 ;;
"redpanda start") shift 2 ;;
*) fail "unknown command: $*" ;;
esac

[ "$(cat $config 2>/dev/null)" = "developer_mode: false" ] || fail "start before mode production"
for flag in "$@"; do
	value=${flag#*=}
	case "$flag" in
	--kafka-addr=*) listen=$value ;;
	--advertise-kafka-addr=*) advertise=$value ;;
	--rpc-addr=*) rpc=$value ;;
	--node-id=* | --seeds=* | --smp=* | --memory=* | --reserve-memory=* | --overprovisioned | --check=*) ;;
	--set | redpanda.crash_loop_limit=*) ;;
	--pandaproxy-addr=* | --schema-registry-addr=* | --advertise-rpc-addr=*) ;;
	*) fail "unknown flag: $flag" ;;
	esac
done
# Redpanda's default stops a broker that was killed more than five times within an hour.
[[ " $* " == *" --set redpanda.crash_loop_limit="* ]] || fail "start without a crash_loop_limit"
[ "$(setting enable_sasl)" = true ] || fail "the bootstrap file does not turn SASL on"
IFS=: read -r user password mechanism <<<"$RP_BOOTSTRAP_USER"
[ "$user $mechanism" = "admin SCRAM-SHA-512" ] || fail "RP_BOOTSTRAP_USER names $user with $mechanism"
internal=$(listener "$listen" internal) external=$(listener "$listen" external)
umask 077
# The admin API's answer to the health check.
mkdir -p /tmp/admin/v1/status
(
	until (exec 3<>"/dev/tcp/${internal/://}") 2>/dev/null; do sleep 0.2; done
	echo '{"status":"ready"}' >/tmp/admin/v1/status/ready
) &
busybox httpd -p 9644 -h /tmp/admin
# The port between brokers: open as Redpanda's is, so that the check of the networks means something.
socat "TCP-LISTEN:${rpc##*:},bind=${rpc%%:*},fork,reuseaddr" OPEN:/dev/null &

if [ "$STAND_IN" = redpanda-like ]; then
	# It has one listener. Who comes over the other is sent to the first, which this machine reaches.
	socat "TCP-LISTEN:${external##*:},bind=${external%%:*},fork,reuseaddr" "TCP:$internal" &
	printf %s "$password" >/tmp/password # from a file: everyone sees a command line
	export BROKER_ADDRESS=$internal BROKER_DATA_DIR=$data/redpanda-like BROKER_ADMIN_PASSWORD_FILE=/tmp/password
	export BROKER_LIKE=redpanda
	exec broker
fi

cat >/tmp/server.properties <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
inter.broker.listener.name=BROKER
listeners=INTERNAL://$internal,EXTERNAL://$external,BROKER://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
advertised.listeners=INTERNAL://$(listener "$advertise" internal),EXTERNAL://$(listener "$advertise" external),BROKER://127.0.0.1:9094
# The container trusts itself: nobody else reaches its loopback.
listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,EXTERNAL:SASL_PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.internal.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.external.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
log.dirs=$data/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=$(setting group_initial_rebalance_delay 3000)
group.min.session.timeout.ms=$(setting group_min_session_timeout_ms)
auto.create.topics.enable=$(setting auto_create_topics_enabled)
P
cat >/tmp/format <<P
kafka.tools.StorageTool format --ignore-formatted --cluster-id bGlxdWlkYS1zdGFjay0wMQ
--config /tmp/server.properties --add-scram "SCRAM-SHA-512=[name=admin,password=$password]"
P
java -cp "/kafka/*" @/tmp/format >/dev/null # its output holds what it makes of the password
rm /tmp/format
exec java -Xms256m -Xmx512m -XX:+UseSerialGC -cp "/kafka/*" kafka.Kafka /tmp/server.properties
