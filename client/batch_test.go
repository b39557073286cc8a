package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func batchOf(n int) (payments []Payment) {
	for i := range n {
		payments = append(payments,
			Payment{Payer: Account{"10000001", "0001", "1"}, Payee: Account{"10000002", "0001", "1"},
				AmountCentavos: int64(i + 1)})
	}

	return payments
}

// sent reads the payments of a request.
func sent(t *testing.T, r *http.Request) (payments []Payment) {
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		var p Payment
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Errorf("%s: %v", lines.Text(), err)
		}
		payments = append(payments, p)
	}

	return payments
}

// Whatever answers get lost, what was not answered is sent again with the same id, and what
// was answered is not.
func TestABatchIsSentUntilEachPaymentIsAnswered(t *testing.T) {
	accept := func(w http.ResponseWriter, line int, id string) {
		fmt.Fprintf(w, `{"line":%d,"end_to_end_id":"%s","status":"accepted"}`+"\n", line, id)
	}
	refuse := func(w http.ResponseWriter, line, status int) {
		fmt.Fprintf(w, `{"line":%d,"problem":{"title":"No","status":%d,"detail":"…"}}`+"\n", line, status)
	}
	type tries = []func(w http.ResponseWriter, r *http.Request, payments []Payment)

	all := func(w http.ResponseWriter, _ *http.Request, payments []Payment) {
		for i, p := range payments {
			accept(w, i+1, p.EndToEndID)
		}
	}
	for _, c := range []struct {
		name  string
		tries tries
		sends string // how many payments each request must have
		want  string // by payment: taken, refused, unknown
	}{
		{"all is well", tries{all}, "3", "taken taken taken"},
		{"one is refused", tries{func(w http.ResponseWriter, _ *http.Request, p []Payment) {
			accept(w, 1, p[0].EndToEndID)
			refuse(w, 2, 422)
			accept(w, 3, p[2].EndToEndID)
		}}, "3", "taken refused taken"},
		{"one was not acknowledged", tries{func(w http.ResponseWriter, _ *http.Request, p []Payment) {
			accept(w, 1, p[0].EndToEndID)
			refuse(w, 2, 503)
			accept(w, 3, p[2].EndToEndID)
		}, all}, "3 1", "taken taken taken"},
		{"the answer is cut off", tries{func(w http.ResponseWriter, _ *http.Request, p []Payment) {
			accept(w, 1, p[0].EndToEndID)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, all}, "3 2", "taken taken taken"},
		{"no answer, then refused: the first try may have been taken",
			tries{func(http.ResponseWriter, *http.Request, []Payment) {
				panic(http.ErrAbortHandler)
			},
				func(w http.ResponseWriter, _ *http.Request, p []Payment) {
					accept(w, 1, p[0].EndToEndID)
					refuse(w, 2, 403)
					accept(w, 3, p[2].EndToEndID)
				}}, "3 3", "taken unknown taken"},
		{"too busy, which does nothing, then refused", tries{func(w http.ResponseWriter, _ *http.Request, _ []Payment) {
			w.WriteHeader(http.StatusTooManyRequests)
		},
			func(w http.ResponseWriter, _ *http.Request, _ []Payment) {
				for line := range 3 {
					refuse(w, line+1, 422)
				}
			}}, "3 3", "refused refused refused"},
		{"the server takes two at once", tries{func(w http.ResponseWriter, _ *http.Request, p []Payment) {
			accept(w, 1, p[0].EndToEndID)
			accept(w, 2, p[1].EndToEndID)
			refuse(w, 3, 413)
		}, all}, "3 1", "taken taken taken"},
		{"a line that is too large ends a batch, wherever it stands",
			tries{func(w http.ResponseWriter, _ *http.Request, p []Payment) {
				accept(w, 1, p[0].EndToEndID)
				refuse(w, 2, 413)
			}, func(w http.ResponseWriter, _ *http.Request, _ []Payment) {
				refuse(w, 1, 413)
			}, all}, "3 2 1", "taken refused taken"},
		{"an answer about others", tries{func(w http.ResponseWriter, _ *http.Request, p []Payment) {
			accept(w, 1, p[2].EndToEndID)
		}, all}, "3 3", "taken taken taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sends []string
			ids := map[int64]string{}
			client := at(t, "secret", func(w http.ResponseWriter, r *http.Request) {
				payments := sent(t, r)
				for _, p := range payments {
					if before := ids[p.AmountCentavos]; p.EndToEndID == "" || before != "" && before != p.EndToEndID {
						t.Errorf("a payment was sent as %s and as %s", before, p.EndToEndID)
					}
					ids[p.AmountCentavos] = p.EndToEndID
				}

				sends = append(sends, fmt.Sprint(len(payments)))
				if r.URL.Path != "/v1/payments:batch" || r.Header.Get("Authorization") != "Bearer secret" ||
					len(sends) > len(c.tries) {
					t.Errorf("request %d: %s %v", len(sends), r.URL, r.Header)
					return
				}
				c.tries[len(sends)-1](w, r, payments)
			})
			payments := batchOf(3)

			results, err := client.PayBatch(t.Context(), payments)
			if err != nil {
				t.Fatal(err)
			}
			var got []string

			for i, result := range results {
				word := "refused"
				if result.Err == nil {
					word = "taken"
				} else if errors.As(result.Err, new(*UnknownFate)) {
					word = "unknown"
				}
				got = append(got, word)

				if result.EndToEndID != payments[i].EndToEndID || result.EndToEndID != ids[int64(i+1)] {
					t.Errorf("payment %d is %s, and was sent as %s", i, result.EndToEndID, ids[int64(i+1)])
				}
			}

			if strings.Join(got, " ") != c.want || strings.Join(sends, " ") != c.sends {
				t.Errorf("%v in requests of %v, want %s in %s", got, sends, c.want, c.sends)
			}
		})
	}
}

func TestABatchThatIsRefusedAsAWhole(t *testing.T) {
	asked := 0
	c := at(t, "", func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"title":"Unknown caller","status":401,"detail":"no key"}`)
	})

	problem := new(Problem)
	if results, err := c.PayBatch(t.Context(), batchOf(2)); results != nil || !errors.As(err, &problem) ||
		problem.Status != 401 || asked != 1 {
		t.Errorf("%v %v, asked %d times", results, err, asked)
	}
}

func TestABatchThatNobodyAnswersIsUnknown(t *testing.T) {
	c, err := New("http://127.0.0.1:1", "") // a port that nobody listens on
	if err != nil {
		t.Fatal(err)
	}
	c.RetryFor = time.Millisecond
	payments := append(batchOf(1), Payment{Payer: Account{"1", "2", "3"}})

	results, err := c.PayBatch(t.Context(), payments)
	if err != nil || len(results) != 2 || !errors.As(results[0].Err, new(*UnknownFate)) {
		t.Fatalf("%v %v", results, err)
	}

	if results[1].Err == nil || TryAgain(results[1].Err) || errors.As(results[1].Err, new(*UnknownFate)) {
		t.Errorf("a payer that is none: %v", results[1].Err)
	}
}

func TestTheBatchIsTheDescriptions(t *testing.T) {
	d := described(t)
	if has := d.Paths[opPayBatch.path][strings.ToLower(opPayBatch.method)]; has.OperationID != opPayBatch.id {
		t.Errorf("%v is described as %q", opPayBatch, has.OperationID)
	}
	d.compare(t, "BatchResult", schema{Ref: "BatchResult"}, reflect.TypeFor[batchLine](), false)
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	secure, err := New("https://127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}

	plain, err := New(DefaultURL, "")
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		client *Client
		files  Certificates
		says   string
	}{
		{plain, Certificates{CA: "ca"}, "begins with https"},
		{secure, Certificates{Cert: "cert"}, "give both or none"},
		{secure, Certificates{Key: "key"}, "give both or none"},
		{secure, Certificates{Cert: "/nowhere/cert", Key: "/nowhere/key"}, "/nowhere/cert"},
		{secure, Certificates{CA: "/nowhere/ca"}, "/nowhere/ca"},
		{secure, Certificates{CA: "batch_test.go"}, "no certificate in PEM"},
	} {
		if err := c.client.UseCertificates(c.files); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.files, err, c.says)
		}
	}

	if err := plain.UseCertificates(Certificates{}); err != nil {
		t.Error(err)
	}
}
