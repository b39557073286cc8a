#!/bin/bash
# Apache Kafka as Redpanda's stand-in in deploy/verify-compose.sh: same listeners, same data
# folder, same cluster settings as redpanda-bootstrap.yaml, same locks.
set -eu
umask 077
data=/var/lib/redpanda/data
password=$(cat /keys/kafka/admin/password)
# Within the container it trusts itself: nobody else reaches its loopback.
cat >/tmp/server.properties <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
inter.broker.listener.name=BROKER
listeners=INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:19092,BROKER://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
advertised.listeners=INTERNAL://redpanda:9092,EXTERNAL://127.0.0.1:19092,BROKER://127.0.0.1:9094
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
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
P
# From a file: a password on a command line is seen by all.
cat >/tmp/format <<P
kafka.tools.StorageTool format --ignore-formatted --cluster-id bGlxdWlkYS1zdGFjay0wMQ
--config /tmp/server.properties --add-scram "SCRAM-SHA-512=[name=admin,password=$password]"
P
java -cp "/kafka/*" @/tmp/format >/dev/null # it would print what it makes of the password
rm /tmp/format
exec java -Xms256m -Xmx512m -XX:+UseSerialGC -cp "/kafka/*" kafka.Kafka /tmp/server.properties
