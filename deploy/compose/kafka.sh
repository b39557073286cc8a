#!/bin/bash
# Apache Kafka as Redpanda's stand-in in deploy/verify-compose.sh: same listeners, same data
# folder, same cluster settings as redpanda-bootstrap.yaml.
set -eu
data=/var/lib/redpanda/data
cat >/tmp/server.properties <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listeners=INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:19092,CONTROLLER://127.0.0.1:9093
advertised.listeners=INTERNAL://redpanda:9092,EXTERNAL://127.0.0.1:19092
listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$data/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
P
java -cp "/kafka/*" kafka.tools.StorageTool format --ignore-formatted --cluster-id bGlxdWlkYS1zdGFjay0wMQ --config /tmp/server.properties
exec java -Xms256m -Xmx512m -XX:+UseSerialGC -cp "/kafka/*" kafka.Kafka /tmp/server.properties
