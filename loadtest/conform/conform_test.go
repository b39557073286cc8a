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

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
	broker := kit.StartBroker(t, kfake.SeedTopics(partitionsOfTests, stream.AuthorizationRequests, stream.AuthorizationResponses))
	file := t.TempDir() + "/secrets"
	kit.Must(t, keys.MakeSeals(file, []pix.ISPB{bankOfTests}))
	seals, err := keys.ReadSeals(file)
	kit.Must(t, err)
	config := Config{Kafka: []kgo.Opt{kgo.SeedBrokers(broker.Address)}, Bank: bankOfTests, Seals: seals, Within: 30 * time.Second, Crowd: 200, Log: t.Logf}
	if start == nil {
		config.Command = []string{"env", "KAFKA_BROKERS=" + broker.Address, "ANSWER_KEYS_FILE=" + file, os.Args[0]}
	} else {
		start(broker, file)
	}
	change(&config)
	report, err := Run(t.Context(), config)
	kit.Must(t, err)
	var text strings.Builder
	report.Write(&text)
	t.Logf("\n%s", text.String())
	lines := map[string]Line{}
	for _, line := range report.Lines {
		lines[line.Check] = line
	}
	return lines
}

// planted is a bank's bug.
type planted func(*bankWithABug)

// bankWithABug is a receiving bank that may do one thing wrong.
type bankWithABug struct {
	seals         keys.Seals
	options       []kgo.Opt
	reply         func(*pixv1.AuthorizationRequest) int32
	key           func(string) string
	seal          func([]byte) []byte
	isOurs        func(*pixv1.AuthorizationRequest) bool
	decide        func(*pixv1.AuthorizationRequest) *pixv1.AuthorizationResponse
	also          func(*pixv1.AuthorizationResponse) bool // changes a second response, and reports whether to send it
	stopsAtBad    bool
	onlyOnce      bool
	strict        bool
	onlyPartition int32 // -1: all
}

func (b *bankWithABug) run(ctx context.Context, client *kgo.Client) {
	answered := map[string]bool{}
	for ctx.Err() == nil {
		stop := false
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			if record.Attrs.CompressionType() != 0 {
				return // engines do not compress, and not every client can unpack
			}
			var request pixv1.AuthorizationRequest
			if err := request.UnmarshalVT(record.Value); err != nil || request.Payee == nil {
				stop = stop || b.stopsAtBad
				return
			}
			if stop || !b.isOurs(&request) || b.onlyOnce && answered[request.EndToEndId] || b.onlyPartition >= 0 && record.Partition != b.onlyPartition {
				return
			}
			if b.strict && len(request.ProtoReflect().GetUnknown()) > 0 {
				return
			}
			answered[request.EndToEndId] = true
			response := b.decide(&request)
			b.write(ctx, client, &request, response)
			if b.also(response) {
				b.write(ctx, client, &request, response)
			}
		})
		if stop {
			return
		}
	}
}

func (b *bankWithABug) write(ctx context.Context, client *kgo.Client, request *pixv1.AuthorizationRequest, response *pixv1.AuthorizationResponse) {
	value, err := response.MarshalVT()
	if err != nil {
		panic(err)
	}
	record := &kgo.Record{Topic: stream.AuthorizationResponses, Partition: b.reply(request), Key: []byte(b.key(request.EndToEndId)), Value: value}
	if seal := b.seal(value); seal != nil {
		record.Headers = []kgo.RecordHeader{{Key: keys.SealHeader, Value: seal}}
	}
	client.Produce(ctx, record, nil)
}

// Each bug that a bank may have is told, by the check that aims at it. A bank without a bug passes.
func TestABanksBugIsTold(t *testing.T) {
	const silent = "no response within"
	for name, c := range map[string]struct {
		bug         planted
		check, says string
	}{
		"none":                      {func(*bankWithABug) {}, "", ""},
		"another partition":         {func(b *bankWithABug) { b.reply = func(*pixv1.AuthorizationRequest) int32 { return 0 } }, "responds in the reply partition", "it is in partition 0 and must be in"},
		"another key":               {func(b *bankWithABug) { b.key = strings.ToLower }, "keys a response by its end_to_end_id", "its key is"},
		"the seal of another value": {func(b *bankWithABug) { b.seal = func([]byte) []byte { return b.seals.Seal(bankOfTests, []byte("x")) } }, "seals each response", "is not the HMAC-SHA-256"},
		"answers for all banks":     {func(b *bankWithABug) { b.isOurs = func(*pixv1.AuthorizationRequest) bool { return true } }, "leaves the questions to other banks alone", "was a question to bank"},
		"a reason of the engine": {func(b *bankWithABug) {
			b.deciding(func(r *pixv1.AuthorizationResponse) {
				r.Status, r.ReasonCode = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, "AB03"
			})
		}, "accepts without a reason, rejects with one that is a bank's to give", "not a bank's to give"},
		"answers once": {func(b *bankWithABug) { b.onlyOnce = true }, "answers a repeated question", silent},
		"answers twice, and differently": {func(b *bankWithABug) {
			b.also = func(r *pixv1.AuthorizationResponse) bool {
				r.Status, r.ReasonCode = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, "AC06"
				return true
			}
		}, "gives each question one response, the same each time", "then"},
		"answers what nobody asked": {func(b *bankWithABug) {
			b.also = func(r *pixv1.AuthorizationResponse) bool {
				r.EndToEndId = strings.ToLower(r.EndToEndId)
				return true
			}
		}, "writes nothing else", "responds to nothing that can be asked"},
		"answers in another name as well": {func(b *bankWithABug) {
			b.also = func(r *pixv1.AuthorizationResponse) bool {
				r.Ispb = "10000004"
				return true
			}
		}, "responds in its own name", "must be 10000005"},
		"does not answer when its customer pays": {func(b *bankWithABug) {
			b.isOurs = func(r *pixv1.AuthorizationRequest) bool {
				return r.Payee.Ispb == string(bankOfTests) && r.Payer.Ispb != string(bankOfTests)
			}
		}, "answers when its own customer pays", silent},
		"refuses fields that it does not know": {func(b *bankWithABug) { b.strict = true }, "ignores fields that it does not know", silent},
		"reads one partition":                  {func(b *bankWithABug) { b.onlyPartition = 1 }, "answers in every partition, for every reply partition", silent},
		"stops at what cannot be read":         {func(b *bankWithABug) { b.stopsAtBad = true }, "goes on after what is no question", silent},
		"reads aborted transactions":           {func(b *bankWithABug) { b.options = []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadUncommitted())} }, "does not answer what was never asked: an aborted transaction", "isolation.level=read_committed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := try(t, func(config *Config) {
				if strings.HasPrefix(c.says, silent) {
					config.Within = 3 * time.Second // that nothing comes takes this long each time
				}
			}, func(broker *kit.Broker, file string) {
				seals, err := keys.ReadSeals(file)
				kit.Must(t, err)
				b := newBank(seals)
				c.bug(b)
				client := broker.Client(append(b.options, kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
				go b.run(t.Context(), client)
			})
			for check, line := range lines {
				if check == c.check {
					if len(line.Wrong) == 0 || !strings.Contains(line.Wrong[0], c.says) {
						t.Errorf("%s: %q and must say %q", check, line.Wrong, c.says)
					}
				} else if c.check == "" && len(line.Wrong) > 0 {
					t.Errorf("%s: %q", check, line.Wrong)
				}
			}
			if c.check != "" && lines[c.check].Check == "" {
				t.Errorf("there is no check %q", c.check)
			}
		})
	}
}

// TestMain is also a bank, as a process of its own that can be frozen and killed.
func TestMain(m *testing.M) {
	if bug, ok := os.LookupEnv("BANK_OF_TESTS"); ok {
		if err := runBank(bug); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runBank answers until it is killed.
func runBank(bug string) error {
	seals, err := keys.ReadSeals(os.Getenv("ANSWER_KEYS_FILE"))
	if err != nil {
		return err
	}
	from := kgo.NewOffset().AtStart()
	if bug == "begins at the end" {
		from = kgo.NewOffset().AtEnd()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS")), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumerGroup("bank"), kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.ConsumeResetOffset(from), kgo.DisableAutoCommit(), kgo.SessionTimeout(6*time.Second))
	if err != nil {
		return err
	}
	b, decided := newBank(seals), map[string]bool{}
	if bug == "forgets its decisions" {
		b.deciding(func(r *pixv1.AuthorizationResponse) {
			if _, known := decided[r.EndToEndId]; !known {
				decided[r.EndToEndId] = rand.IntN(2) == 0
			}
			if decided[r.EndToEndId] {
				r.Status, r.ReasonCode = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, "AC06"
			}
		})
	}
	for {
		records := client.PollFetches(context.Background()).Records()
		if bug == "commits first" {
			if err := client.CommitRecords(context.Background(), records...); err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Millisecond) // its work
		for _, record := range records {
			var request pixv1.AuthorizationRequest
			if err := request.UnmarshalVT(record.Value); err == nil && request.GetPayee().GetIspb() == string(bankOfTests) && uint32(request.ReplyPartition) < partitionsOfTests {
				b.write(context.Background(), client, &request, b.decide(&request))
			}
		}
		if err := client.Flush(context.Background()); err != nil {
			return err
		}
		if err := client.CommitRecords(context.Background(), records...); err != nil {
			return err
		}
	}
}

// A bug that only shows when a bank starts, or is killed, is told, too.
func TestABugOfAKilledBankIsTold(t *testing.T) {
	for bug, check := range map[string]string{
		"none":                  "",
		"begins at the end":     "answers what was asked before it started",
		"commits first":         "commits an offset after the response",
		"forgets its decisions": "gives each question one response, the same each time",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			lines := try(t, func(config *Config) {
				config.Command = append([]string{"env", "BANK_OF_TESTS=" + bug}, config.Command...)
				if bug == "begins at the end" {
					config.Within = 15 * time.Second // that nothing comes takes this long
				}
			}, nil)
			for name, line := range lines {
				if line.Skipped != "" || check == "" && len(line.Wrong) > 0 {
					t.Errorf("%s: %s %q", name, line.Skipped, line.Wrong)
				}
			}
			if check != "" && len(lines[check].Wrong) == 0 {
				t.Errorf("%s: passed", check)
			}
		})
	}
}

// What a sandbox does is no fault of the bank: its broker refuses transactions, its simulator answers
// for all other banks, and the bank answers what an earlier run asked.
func TestASandboxIsNoFaultOfTheBank(t *testing.T) {
	refuse := func(cluster *kfake.Cluster) {
		cluster.ControlKey(kmsg.InitProducerID.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			asked := request.(*kmsg.InitProducerIDRequest)
			if asked.TransactionalID == nil {
				return nil, nil, false
			}
			response := asked.ResponseKind().(*kmsg.InitProducerIDResponse)
			response.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
			return response, nil, true
		})
	}
	early := &pixv1.AuthorizationRequest{EndToEndId: "E1000000120261122174500000abcdef", Payee: &pixv1.Account{Ispb: string(bankOfTests)}}
	for check, line := range try(t, func(*Config) {}, func(broker *kit.Broker, file string) {
		broker.Control(refuse)
		seals, err := keys.ReadSeals(file)
		kit.Must(t, err)
		value, err := early.MarshalVT()
		kit.Must(t, err)
		record := &kgo.Record{Topic: stream.AuthorizationRequests, Value: value}
		kit.Must(t, broker.Client().ProduceSync(t.Context(), record).FirstErr())
		b, simulator := newBank(seals), newBank(nil)
		b.also = func(r *pixv1.AuthorizationResponse) bool {
			again := r.EndToEndId != early.EndToEndId
			r.EndToEndId = early.EndToEndId
			return again
		}
		simulator.isOurs = func(r *pixv1.AuthorizationRequest) bool { return r.Payee.Ispb != string(bankOfTests) }
		simulator.decide = func(r *pixv1.AuthorizationRequest) *pixv1.AuthorizationResponse {
			return &pixv1.AuthorizationResponse{EndToEndId: r.EndToEndId, Ispb: r.Payee.Ispb, Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
		}
		for _, bank := range []*bankWithABug{b, simulator} {
			go bank.run(t.Context(), broker.Client(append(bank.options, kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...))
		}
	}) {
		if len(line.Wrong) > 0 {
			t.Errorf("%s: %q", check, line.Wrong)
		}
	}
}

func newBank(seals keys.Seals) *bankWithABug {
	b := &bankWithABug{seals: seals, onlyPartition: -1, options: []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())}}
	b.reply = func(r *pixv1.AuthorizationRequest) int32 { return r.ReplyPartition }
	b.key = func(id string) string { return id }
	b.also = func(*pixv1.AuthorizationResponse) bool { return false }
	b.seal = func(value []byte) []byte { return b.seals.Seal(bankOfTests, value) }
	b.isOurs = func(r *pixv1.AuthorizationRequest) bool { return r.Payee.Ispb == string(bankOfTests) }
	b.deciding(func(*pixv1.AuthorizationResponse) {})
	return b
}

// deciding makes a response that accepts, changed.
func (b *bankWithABug) deciding(change func(*pixv1.AuthorizationResponse)) {
	b.decide = func(r *pixv1.AuthorizationRequest) *pixv1.AuthorizationResponse {
		response := &pixv1.AuthorizationResponse{EndToEndId: r.EndToEndId, Ispb: string(bankOfTests), Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
		change(response)
		return response
	}
}

// The bank of the examples keeps every rule, also when it is killed.
func TestThePythonBankConforms(t *testing.T) {
	python := os.Getenv("PYTHON_WITH_KAFKA")
	if python == "" {
		t.Skip("PYTHON_WITH_KAFKA names a Python with confluent-kafka: make test-python-bank")
	}
	if output, err := exec.CommandContext(t.Context(), python, "-c", "import confluent_kafka").CombinedOutput(); err != nil {
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
