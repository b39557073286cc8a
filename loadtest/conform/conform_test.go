package conform

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

const bankOfTests pix.ISPB = "10000005"

const partitionsOfTests = 3

// try holds a bank against the document, on a broker and with a secret of its own. Without start
// the bank is a process: TestMain.
func try(t *testing.T, change func(*Config), start func(*kit.Broker, string)) map[string]Line {
	t.Helper()
	broker := kit.StartBroker(t,
		kfake.SeedTopics(partitionsOfTests, stream.AuthorizationRequests, stream.AuthorizationResponses))
	file := t.TempDir() + "/secrets"
	kit.Must(t, keys.MakeSeals(file, []pix.ISPB{bankOfTests}))
	seals, err := keys.ReadSeals(file)
	kit.Must(t, err)

	config := Config{Kafka: []kgo.Opt{kgo.SeedBrokers(broker.Address)}, Bank: bankOfTests, Seals: seals,
		Within: 30 * time.Second, Crowd: 200, Log: t.Logf}
	if start == nil {
		config.Command = []string{"env", "KAFKA_BROKERS=" + broker.Address, "ANSWER_KEYS_FILE=" + file, os.Args[0]}
	} else {
		start(broker, file)
	}
	change(&config)
	all, err := Run(t.Context(), config)
	kit.Must(t, err)
	var text strings.Builder
	Write(&text, all)
	t.Logf("\n%s", text.String())

	lines := map[string]Line{}
	for _, line := range all {
		lines[line.Check] = line
	}

	return lines
}

const (
	silent    = "no response within"
	oneAnswer = "gives each question one response, the same each time"
	restarted = "killed, it starts again and answers what it was asked"
)

// bugs are what a bank may do wrong, the check that aims at it, and what that says. The last ones show only when a
// bank starts or is killed.
var bugs = []struct{ name, check, says string }{
	{"", "", ""},
	{"another partition", "responds in the reply partition", "it is in partition 0 and must be in"},
	{"the seal of another value", "seals each response", "is not the HMAC-SHA-256"},
	{"answers for all banks", "leaves the questions to other banks alone", "was a question to bank"},
	{"answers once", "answers a repeated question", silent},
	{"answers twice, and differently", oneAnswer, "then"},
	{"reads one partition", "answers in every partition, for every reply partition", silent},
	{"stops at what cannot be read", "goes on after what is no question", silent},

	{"killed", "", ""},
	{"killed, begins at the end", "answers what was asked before it started", silent},
	{"killed, commits first", restarted, silent},
	{"killed, forgets its decisions", oneAnswer, "then"},
}

// bank is a receiving bank that does one thing wrong.
type bank struct {
	client   *kgo.Client
	seals    keys.Seals
	bug      string
	answered map[string]*pixv1.AuthorizationResponse
}

// take answers a question. It reports whether the bank goes on.
func (b *bank) take(record *kgo.Record) bool {
	var request pixv1.AuthorizationRequest
	if err := request.UnmarshalVT(record.Value); err != nil || request.Payee == nil {
		return b.bug != "stops at what cannot be read"
	}

	isOurs, first := request.Payee.Ispb == string(bankOfTests), b.answered[request.EndToEndId]
	switch b.bug {
	case "answers for all banks":
		isOurs = true
	case "answers once":
		isOurs = isOurs && first == nil
	case "reads one partition":
		isOurs = isOurs && record.Partition == 1
	}

	if !isOurs || uint32(request.ReplyPartition) >= partitionsOfTests {
		return true
	}
	response := &pixv1.AuthorizationResponse{EndToEndId: request.EndToEndId, Ispb: string(bankOfTests),
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
	reject := func(reason string) {
		response.Status, response.ReasonCode = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, reason
	}

	switch {
	case b.bug == "killed, forgets its decisions" && first != nil:
		response = first
	case b.bug == "killed, forgets its decisions" && rand.IntN(2) == 0:
		reject("AC06")
	}
	b.answered[request.EndToEndId] = response
	b.write(&request, response)

	if b.bug == "answers twice, and differently" {
		reject("AC06")
		b.write(&request, response)
	}

	return true
}

func (b *bank) write(request *pixv1.AuthorizationRequest, response *pixv1.AuthorizationResponse) {
	value, err := response.MarshalVT()
	if err != nil {
		panic(err)
	}
	record := &kgo.Record{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition,
		Key: []byte(request.EndToEndId), Value: value}
	sealed := value

	switch b.bug {
	case "another partition":
		record.Partition = 0
	case "the seal of another value":
		sealed = []byte("x")
	}
	record.Headers = []kgo.RecordHeader{{Key: keys.SealHeader, Value: b.seals.Seal(bankOfTests, sealed)}}
	b.client.Produce(context.Background(), record, nil)
}

// run answers until ctx ends.
func (b *bank) run(ctx context.Context) {
	b.answered = map[string]*pixv1.AuthorizationResponse{}
	for goesOn := true; goesOn && ctx.Err() == nil; {
		b.client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			goesOn = goesOn && b.take(record)
		})
	}
}

// runCommitting answers in a consumer group until it is killed.
func (b *bank) runCommitting() error {
	b.answered = map[string]*pixv1.AuthorizationResponse{}

	ctx := context.Background()
	for {
		records := b.client.PollFetches(ctx).Records()
		if b.bug == "killed, commits first" {
			if err := b.client.CommitRecords(ctx, records...); err != nil {
				return err
			}
			time.Sleep(450 * time.Millisecond) // so that most kills come between commit and answer
		}
		time.Sleep(50 * time.Millisecond) // its work

		for _, record := range records {
			b.take(record)
		}

		if err := b.client.Flush(ctx); err != nil {
			return err
		}

		if err := b.client.CommitRecords(ctx, records...); err != nil {
			return err
		}
	}
}

// TestMain is also a bank, as a process of its own that can be frozen and killed.
func TestMain(m *testing.M) {
	bug, isBank := os.LookupEnv("BANK_OF_TESTS")
	if !isBank {
		os.Exit(m.Run())
	}

	from := kgo.NewOffset().AtStart()
	if bug == "killed, begins at the end" {
		from = kgo.NewOffset().AtEnd()
	}
	seals, err := keys.ReadSeals(os.Getenv("ANSWER_KEYS_FILE"))

	var client *kgo.Client
	if err == nil {
		client, err = kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS")),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumerGroup("bank"), kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.ConsumeResetOffset(from),
			kgo.DisableAutoCommit(), kgo.SessionTimeout(6*time.Second))
	}

	if err == nil {
		err = (&bank{client: client, seals: seals, bug: bug}).runCommitting()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// start lets a bank answer while the test runs.
func start(t *testing.T, broker *kit.Broker, file string, b *bank) {
	t.Helper()
	var err error
	b.seals, err = keys.ReadSeals(file)
	kit.Must(t, err)
	b.client = broker.Client(kgo.ConsumeTopics(stream.AuthorizationRequests),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	go b.run(t.Context())
}

// Each bug that a bank may have is told, by the check that aims at it. A bank without a bug passes.
func TestABanksBugIsTold(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			isKilled := strings.HasPrefix(bug.name, "killed")

			starts := func(broker *kit.Broker, file string) { start(t, broker, file, &bank{bug: bug.name}) }
			if isKilled {
				starts = nil
			}

			lines := try(t, func(config *Config) {
				if isKilled {
					config.Command = append([]string{"env", "BANK_OF_TESTS=" + bug.name}, config.Command...)
				}

				if bug.says == silent { // that nothing comes takes this long each time
					config.Within = map[bool]time.Duration{false: 3 * time.Second, true: 15 * time.Second}[isKilled]
				}
			}, starts)
			for check, line := range lines {
				if isKilled && line.Skipped != "" || bug.check == "" && len(line.Wrong) > 0 {
					t.Errorf("%s: %s %q", check, line.Skipped, line.Wrong)
				}
			}

			if wrong := lines[bug.check].Wrong; bug.check != "" &&
				(len(wrong) == 0 || !strings.Contains(wrong[0], bug.says)) {
				t.Errorf("%s: %q and must say %q", bug.check, wrong, bug.says)
			}
		})
	}
}

// The bank of the examples keeps every rule, also when it is killed.
func TestThePythonBankConforms(t *testing.T) {
	python := os.Getenv("PYTHON_WITH_KAFKA")
	if python == "" {
		t.Skip("PYTHON_WITH_KAFKA names a Python with confluent-kafka: make test-python-bank")
	}

	if output, err := exec.CommandContext(t.Context(), python, "-c",
		"import confluent_kafka").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", python, err, output)
	}

	for check, line := range try(t, func(config *Config) {
		config.Command = []string{python, "../../examples/python/bank_kafka.py", "--bank", string(bankOfTests)}
		config.Crowd = 1000
	}, func(broker *kit.Broker, file string) {
		t.Setenv("KAFKA_BROKERS", broker.Address)
		t.Setenv("ANSWER_KEYS_FILE", file)
	}) {
		if line.Skipped != "" || len(line.Wrong) > 0 {
			t.Errorf("%s: %s %q", check, line.Skipped, line.Wrong)
		}
	}
}
