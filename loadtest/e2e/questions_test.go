package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
)

// A bank that speaks no Kafka is paid: liquida and the example in Python answer for it over HTTP. The example is killed
// and started again.
func TestABankIsPaidOverHTTP(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) {
		// On a busy machine the ledger may stand still for longer than other tests wait for a bank.
		c.Env[stack.Engine] = append(c.Env[stack.Engine], "ENGINE_DEADLINE=90s", "ENGINE_PENDING_TIMEOUT=2m")
	})
	const bank = "10000005"
	s.must(s.callers(s.SimulatorURL()).SetProfile(t.Context(), bank, `{"silent_share": 1}`))

	payer := s.api("10000001")
	// pays sends payments to the bank, all at once, and wants each to end so.
	pays := func(payments int, number, status, reason string) {
		t.Helper()

		failed := make(chan error, payments)
		for range payments {
			go func() {
				state, err := payer.Pay(t.Context(),
					client.Payment{Payer: client.Account{ISPB: "10000001", Branch: "0001", Number: "7"},
						Payee:          client.Account{ISPB: bank, Branch: "0001", Number: number},
						AmountCentavos: 100, RemittanceInformation: "lunch"}, 2*time.Minute)
				if err == nil && (state.Status != status || state.ReasonCode != reason) {
					err = fmt.Errorf("%+v, want %s %s", state, status, reason)
				}
				failed <- err
			}()
		}

		for range payments {
			s.must(<-failed)
		}
	}

	answering := make(chan struct{})
	go func() {
		defer close(answering)
		s.liquida(s.ProducerURL(), bank)("answer", bank, "--reject", "AC06", "--count", "3", "--for", "2m",
			"--secret-file", s.AnswerKeysFile()).Is(t, 0, "AC06", "stored")
	}()
	pays(3, "1", client.Rejected, "AC06")
	<-answering

	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	begin := func(url string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), python, "../../examples/python/bank.py", "--bank", bank,
			"--closed", "0001/2")
		command.Env = append(os.Environ(), "LIQUIDA_URL="+url, "LIQUIDA_KEY_FILE="+s.keyFile(bank),
			"ANSWER_KEYS_FILE="+s.AnswerKeysFile())
		command.Stderr = os.Stderr
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		s.must(command.Start())
		t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })

		return command
	}
	killed := begin(s.ProducerURL())
	pays(20, "1", client.Settled, "")
	pays(1, "2", client.Rejected, "AC07")
	s.must(killed.Process.Kill())
	ended := make(chan struct{})
	go func() { defer close(ended); pays(10, "1", client.Settled, "") }()
	// what was asked meanwhile, or was asked the one that was killed, is answered by this one
	again := begin(s.ProducerURL())
	<-ended
	s.must(again.Process.Kill())
	stop := s.shellBank(bank)
	pays(5, "1", client.Settled, "")
	stop()
}

// shellBank runs the bank of docs/participant.md until stop is called.
func (s *system) shellBank(bank string) (stop func()) {
	s.t.Helper()
	text, err := os.ReadFile("../../docs/participant.md")
	s.must(err)
	_, after, _ := strings.Cut(string(text), "## Being asked over HTTP\n")
	_, after, _ = strings.Cut(after, "```sh\n")

	block, _, _ := strings.Cut(after, "```")
	for from, to := range map[string]string{"http://127.0.0.1:8080": s.ProducerURL(),
		".stack/keys/" + bank: s.keyFile(bank), ".stack/answer-keys": s.AnswerKeysFile()} {
		if !strings.Contains(block, from) {
			s.t.Fatalf("the bank in the shell does not name %s: %s", from, block)
		}
		block = strings.ReplaceAll(block, from, to)
	}
	command := exec.CommandContext(s.t.Context(), "bash", "-c", block)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.must(command.Start())
	stop = sync.OnceFunc(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL); _ = command.Wait() })
	s.t.Cleanup(stop)

	return stop
}
