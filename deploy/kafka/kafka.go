// Package kafka fetches Apache Kafka and runs one broker of it on this machine. The local stack
// and the tests can use it in place of the embedded broker, which only resembles it.
package kafka

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/liquida/liquida/deploy/cache"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// Version is that of Apache Kafka.
const Version = "4.3.1"

// Node is one broker, which is a controller, too.
type Node struct {
	ID         int      // from 1 on
	Voters     []string // the controllers' IP:port of all nodes, in the order of their ids
	Folder     string   // of its settings and its data
	Address    string   // IP:port for its clients
	Controller string   // IP:port for the nodes
	Secrets    string   // the folder of the certificate and the users' passwords; empty: everyone may do everything
}

// The files with which a node and its clients prove their identity to each other, PEM. The controller's listener asks
// for the node's own certificate, because any program that reaches it may change users and ACLs.
const (
	AuthorityFile   = "ca.pem"     // the authority that signed the node's certificate, and no other
	CertificateFile = "broker.pem" // certificate and key (PKCS 8), of the common name BrokerName
)

// BrokerName is the common name in the certificate of a secured node.
const BrokerName = "liquida-broker"

func (n Node) settings() string { return filepath.Join(n.Folder, "server.properties") }
func (n Node) data() string     { return filepath.Join(n.Folder, "data") }

// clusterID can be any UUID, because the nodes never join others.
const clusterID = "bGlxdWlkYS1zdGFjay0wMQ"

// properties returns the node's settings.
func (n Node) properties(adminPassword string) string {
	security := []string{"listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
	if n.Secrets != "" {
		security = []string{
			"listener.security.protocol.map=CLIENT:SASL_SSL,CONTROLLER:SSL",
			"sasl.enabled.mechanisms=SCRAM-SHA-512",
			"sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512", // the node as its own client
			fmt.Sprintf("listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=%q password=%q;",
				stream.Admin, adminPassword),
			"ssl.keystore.type=PEM",
			"ssl.keystore.location=" + filepath.Join(n.Secrets, CertificateFile),
			"ssl.truststore.type=PEM",
			"ssl.truststore.location=" + filepath.Join(n.Secrets, AuthorityFile),
			"listener.name.controller.ssl.client.auth=required",
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users=User:" + stream.Admin + ";User:CN=" + BrokerName,
		}
	}

	var voters []string
	for i, voter := range n.Voters {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, voter))
	}
	copies := len(voters)

	return strings.Join(append(security,
		"process.roles=broker,controller",
		fmt.Sprint("node.id=", n.ID),
		"controller.quorum.voters="+strings.Join(voters, ","),
		"controller.listener.names=CONTROLLER",
		"inter.broker.listener.name=CLIENT",
		"listeners=CLIENT://"+n.Address+",CONTROLLER://"+n.Controller,
		"advertised.listeners=CLIENT://"+n.Address,
		"log.dirs="+n.data(),
		fmt.Sprint("offsets.topic.replication.factor=", copies),
		"offsets.topic.num.partitions=4", // the default of 50 is for many groups, and takes time at each start
		fmt.Sprint("transaction.state.log.replication.factor=", copies),
		fmt.Sprint("transaction.state.log.min.isr=", copies/2+1),
		"transaction.state.log.num.partitions=4",
		fmt.Sprint("share.coordinator.state.topic.replication.factor=", copies),
		fmt.Sprint("share.coordinator.state.topic.min.isr=", copies/2+1),
		"group.initial.rebalance.delay.ms=0",
		// After a SIGKILL the controller refuses the new broker as long as it believes that the
		// old one lives: 9 s by default.
		"broker.session.timeout.ms=3000",
		"broker.heartbeat.interval.ms=500",
		// The same as the embedded broker's, and for the same reasons: see deploy/cmd/broker.
		"group.min.session.timeout.ms=1000",
		"message.max.bytes=1048576",
		"auto.create.topics.enable=false",
		"",
	), "\n")
}

// Prepare writes the node's settings, and creates its data folder if there is none.
func (k *Kafka) Prepare(ctx context.Context, node Node) error {
	if strings.ContainsAny(node.Folder, ",\\\n") {
		return fmt.Errorf("Apache Kafka cannot keep its data in %q: commas, backslashes and line breaks have a meaning in its settings; choose another folder",
			node.Folder)
	}

	adminPassword, arguments := "",
		[]string{"kafka.tools.StorageTool", "format", "--cluster-id", clusterID, "--config", node.settings()}
	if node.Secrets != "" {
		var err error
		if adminPassword, err = keys.ReadPassword(keys.PasswordFile(node.Secrets, stream.Admin)); err != nil {
			return err
		}
		arguments = append(arguments, "--add-scram",
			fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", stream.Admin, adminPassword))
	}

	if err := os.MkdirAll(node.Folder, 0o755); err != nil {
		return err
	}
	// The settings hold the admin's password.
	if err := os.WriteFile(node.settings(), []byte(node.properties(adminPassword)), 0o600); err != nil {
		return err
	}
	// This file is written last, so an interrupted call is repeated.
	if there, err := cache.Exists(filepath.Join(node.data(), "meta.properties")); err != nil || there {
		return err
	}
	// The password comes from a file that nobody else can read: every user can read command lines.
	command := node.settings() + ".command"

	var quoted strings.Builder
	for _, argument := range k.arguments(arguments...) {
		fmt.Fprintf(&quoted, "%q\n", argument)
	}

	if err := os.WriteFile(command, []byte(quoted.String()), 0o600); err != nil {
		return err
	}
	defer os.Remove(command)

	if err := cache.Run(ctx, node.Folder, nil, k.java, "@"+command); err != nil {
		return fmt.Errorf("cannot create the data folder of Apache Kafka: %w", err)
	}

	return nil
}

// Command returns the command that runs a prepared node until SIGTERM. It logs to standard output.
func (k *Kafka) Command(node Node) (path string, arguments []string) {
	return k.java, k.arguments("kafka.Kafka", node.settings())
}

// arguments returns Java's arguments to run a class, with a small heap and the simplest collector
// and compiler: Kafka shares the machine with everything else. From Java 19 on it also archives the classes
// as loaded, and the next start takes one second instead of four.
func (k *Kafka) arguments(class ...string) []string {
	return append([]string{
		"-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN",
		"-XX:+IgnoreUnrecognizedVMOptions", "-XX:+AutoCreateSharedArchive",
		"-XX:SharedArchiveFile=" + filepath.Join(k.folder, "java.jsa"),
		"-cp", filepath.Join(k.libs(), "*"),
	}, class...)
}
