package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/kit"
)

// A bank that speaks no Kafka is paid: liquida and the example in Python answer for it over HTTP. The example is killed
// and started again.
func TestABankIsPaidOverHTTP(t *testing.T) {
	s := start(t, 1)
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
	second, err := s.AddProducer(t.Context())
	s.must(err)
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
	s.webhook(python, bank, second)
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

// webhook requires that the example posts each settlement once more after a failure, with its signature.
func (s *system) webhook(python, bank, url string) {
	s.t.Helper()
	posts := make(chan string, 1000)
	first := true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first { // one after the other: the example waits for the response
			first = false
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		body, _ := io.ReadAll(r.Body)
		seal := hmac.New(sha256.New, []byte("secret"))
		seal.Write(body)

		if r.Header.Get("Signature") != hex.EncodeToString(seal.Sum(nil)) {
			body = []byte("a wrong signature of " + string(body))
		}
		posts <- string(body)
	}))
	defer receiver.Close()
	command := exec.CommandContext(s.t.Context(), python, "../../examples/python/webhook.py", bank, receiver.URL,
		filepath.Join(s.t.TempDir(), "place"))
	command.Env = append(os.Environ(), "LIQUIDA_URL="+url, "LIQUIDA_KEY_FILE="+s.keyFile(bank), "WEBHOOK_SECRET=secret")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.must(command.Start())
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()

	seen := map[string]bool{}
	for len(seen) < 34 { // all payments so far: 3 refused, 30 settled, 1 to a closed account
		select {
		case post := <-posts:
			var settlement client.Settlement
			if err := json.Unmarshal([]byte(post), &settlement); err != nil || seen[settlement.EndToEndID] {
				s.t.Fatalf("%s: %v", post, err)
			}
			seen[settlement.EndToEndID] = true
		case <-time.After(kit.Patience):
			s.t.Fatalf("%d settlements were posted", len(seen))
		}
	}
}
