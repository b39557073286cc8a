package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/stream"
)

// spec says how to run a process and when it is ready.
type spec struct {
	name      string
	command   []string // the program and its arguments
	env       []string
	address   string // where it serves, for people to read
	telemetry string // where it serves telemetry; empty without
	ledger    string // the data file of a TigerBeetle server; empty for others
	oneShot   bool   // ready when it has ended without an error
	optional  bool   // the stack is ready without it
	listens   []string
	ready     func(context.Context, *process) error
}

// specify returns the spec of a process: its program, environment, addresses and readiness.
func (s *Stack) specify(name string) (spec, error) {
	kind := kindOf(name)
	p := spec{name: name, command: []string{filepath.Join(s.config().BinDir, kind)}}

	brokers, err := s.reach(name, s.Brokers()...)
	if err != nil {
		return p, err
	}

	replicas, err := s.reach(name, s.Replicas()...)
	if err != nil {
		return p, err
	}

	user := kind // of Kafka
	if kind == Bootstrap {
		user = stream.Admin
	}
	p.env = append(s.kafkaEnvironment(user, brokers),
		"TIGERBEETLE_ADDRESSES="+replicas,
		"TIGERBEETLE_CLUSTER_ID=0",
	)

	switch kind {
	case TigerBeetle:
		p.ledger = tigerbeetle.DataFile(s.ledgerFolder(), slices.Index(s.Replicas(), name))

		arguments := tigerbeetle.StartArguments(p.ledger, replicas, s.config().CacheGrid, s.config().LimitGiB)
		if s.config().Statsd != "" {
			arguments = slices.Insert(arguments, 2, "--statsd="+s.config().Statsd)
		}
		p.command = append([]string{s.config().TigerBeetleBin}, arguments...)
		p.serve(s, name)
		p.ready = ledgerReady
	case Broker:
		p.serve(s, name)

		p.ready = s.brokerReady
		if s.config().Kafka == Apache {
			java, arguments := s.kafka.Command(s.kafkaNode(name))
			p.command = append([]string{java}, arguments...)
			p.listens = append(p.listens, controllerOf(name))

			break
		}

		p.env = append(p.env, "BROKER_ADDRESS="+s.addresses.of(Broker), "BROKER_DATA_DIR="+s.KafkaFolder())
		if s.config().Kafka == RedpandaLike {
			p.env = append(p.env, "BROKER_LIKE=redpanda")
		}

		if s.config().KafkaSecured {
			p.env = append(p.env, "BROKER_ADMIN_PASSWORD_FILE="+s.passwordFile(stream.Admin),
				"BROKER_TLS_CERT_FILE="+s.certificateFile())
		}
	case Bootstrap:
		p.env = append(p.env, "TELEMETRY_ADDRESS=127.0.0.1:0", // it ends before anybody could ask
			"CLIENT_KEYS_DIR="+s.keysDir(), "HTTP_KEYS_FILE="+s.digestsFile(), "ANSWER_KEYS_FILE="+s.AnswerKeysFile(),
			fmt.Sprint("REPLICATION_FACTOR=", s.config().Brokers))
		if s.config().KafkaSecured {
			p.env = append(p.env, "KAFKA_PASSWORDS_DIR="+s.secretsFolder())
		}
		p.oneShot = true
	case Simulator, Producer:
		p.env = append(p.env, "HTTP_ADDRESS="+s.addresses.of(name), "HTTP_KEYS_FILE="+s.digestsFile())
		p.serve(s, name)
		p.tell(s)

		if kind == Producer {
			p.env = append(p.env, fmt.Sprint("LEDGER_LIMIT_GIB=", s.config().LimitGiB))
		} else {
			p.env = append(p.env, "ANSWER_KEYS_FILE="+s.AnswerKeysFile(), "SIMULATOR_API_URL="+s.ProducerURL(),
				"SIMULATOR_API_KEYS_DIR="+s.keysDir())
		}
	case Engine:
		p.env = append(p.env, "ENGINE_INSTANCE_ID="+name, "ANSWER_KEYS_FILE="+s.AnswerKeysFile())
		p.tell(s)
	case Archiver:
		p.env = append(p.env, "ARCHIVE_DIR="+s.ArchiveFolder())
		p.tell(s)
	case Room:
		p.command = []string{filepath.Join(s.config().BinDir, "loadtest"), "room", "--dir", s.config().Dir}
		p.address = s.addresses.of(Room) // it is optional, so nobody checks that the port is free
		p.optional = true

		p.env = append(p.env, "ROOM_ADDRESS="+p.address, "ROOM_TOKEN_FILE="+s.roomTokenFile(),
			"SIMULATOR_URL="+s.SimulatorURL(), "CLIENT_KEYS_DIR="+s.keysDir())
		if s.config().KafkaSecured { // the room itself may not write; this is for the load that it sends on request
			p.env = append(p.env, "LOAD_KAFKA_SASL_USER=loadtest",
				"LOAD_KAFKA_SASL_PASSWORD_FILE="+s.passwordFile("loadtest"))
		}
		p.ready = httpReady("http://" + p.address + "/")
	default:
		return p, fmt.Errorf("the stack knows no process %q", name)
	}

	p.env = append(p.env, s.config().Env[kind]...)
	if name != kind {
		p.env = append(p.env, s.config().Env[name]...)
	}

	if ledger, others := s.cores(); kind == TigerBeetle && ledger != others {
		p.command = append([]string{"taskset", "-c", ledger}, p.command...)
	} else if kind != TigerBeetle && s.config().LoadFirst {
		p.command = append([]string{"nice", "-n", "10"}, p.command...)
	}

	return p, nil
}

// reach returns the addresses at which a process reaches servers, comma-separated.
func (s *Stack) reach(process string, servers ...string) (string, error) {
	var all []string

	for _, server := range servers {
		address, linked := s.addresses.of(server), s.config().Linked

		if linked != nil && process != server && linked(process, server) { // a replica listens where it reaches itself
			var err error
			if address, err = s.links.to(process, server, address); err != nil {
				return "", fmt.Errorf("how %s reaches %s: %w", process, server, err)
			}
		}
		all = append(all, address)
	}

	return strings.Join(all, ","), nil
}

func (p *spec) serve(s *Stack, role string) {
	p.address = s.addresses.of(role)
	p.listens = append(p.listens, role)
}

// tell gives a service its telemetry address, where the stack asks whether it is ready.
func (p *spec) tell(s *Stack) {
	role := telemetryOf(p.name)
	p.telemetry = s.addresses.of(role)
	p.env = append(p.env, "TELEMETRY_ADDRESS="+p.telemetry)
	p.listens = append(p.listens, role)
	p.ready = httpReady("http://" + p.telemetry + "/readyz")
}

func ledgerReady(_ context.Context, p *process) error {
	log, err := p.logged()
	if err != nil {
		return err
	}

	if !tigerbeetle.Answers(log) {
		return errors.New("it is still reading its data, or is looking for a majority of its replicas")
	}

	return nil
}

// brokerReady sends a request, because the port opens before the data is read. Several brokers are ready when all have
// caught up: if another died before, nothing would be acknowledged.
func (s *Stack) brokerReady(ctx context.Context, p *process) error {
	client, err := s.kafkaAs(stream.Admin, s.addresses.of(p.name)).Client()
	if err != nil {
		return err
	}
	defer client.Close()

	if err := stream.Reach(ctx, client); err != nil || s.config().Brokers == 1 {
		return err
	}

	topics, err := kadm.NewClient(client).ListTopicsWithInternal(ctx)
	topics.EachPartition(func(d kadm.PartitionDetail) {
		if len(d.ISR) < len(d.Replicas) {
			err = fmt.Errorf("copies of partition %d of %s in sync: %d", d.Partition, d.Topic, len(d.ISR))
		}
	})

	return err
}

// probe keeps no connection open.
var probe = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// httpReady asks a URL, whose problem it returns. A service names its problems in JSON.
func httpReady(url string) func(context.Context, *process) error {
	return func(ctx context.Context, _ *process) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}

		response, err := probe.Do(request)
		if err != nil {
			return fmt.Errorf("%s does not answer: %w", url, err)
		}
		defer response.Body.Close()

		if response.StatusCode == http.StatusOK {
			return nil
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))

		var health struct{ Problems map[string]string }
		if json.Unmarshal(body, &health) != nil || len(health.Problems) == 0 {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
		}

		var problems []string
		for need, wrong := range health.Problems {
			problems = append(problems, need+": "+wrong)
		}
		slices.Sort(problems)

		return errors.New(strings.Join(problems, "; "))
	}
}
