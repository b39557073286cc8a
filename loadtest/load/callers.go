package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/keys"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Callers ask the HTTP API as the banks.
type Callers struct {
	url    string
	keys   map[string]string // by ISPB
	client *http.Client
}

// NewCallers keep up to 256 connections: with one connection for each request a load would
// measure connecting. Waiting for a connection counts as latency.
func NewCallers(url string, keys map[string]string) *Callers {
	return &Callers{url, keys,
		&http.Client{Timeout: 30 * time.Second,
			Transport: &http.Transport{MaxConnsPerHost: 256, MaxIdleConnsPerHost: 256}}}
}

// Close closes the connections.
func (c *Callers) Close() { c.client.CloseIdleConnections() }

// answerMax bounds a response, which may be about a batch.
const answerMax = 4 << 20

// Answer is a whole response.
type Answer struct {
	Status int
	Body   []byte
}

// Send makes a request, with pairs of a header and its value, and reads the whole response.
func (c *Callers) Send(ctx context.Context, method, path, ispb string, body []byte, headers ...string) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+c.keys[ispb])

	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}

	response, err := c.client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax))

	return Answer{response.StatusCode, answer}, err
}

// Ask makes a request and reads the whole response, which must have a status.
func (c *Callers) Ask(ctx context.Context, method, path, ispb string, body []byte, status int) ([]byte, error) {
	answer, err := c.Send(ctx, method, path, ispb, body)
	if err == nil && answer.Status != status {
		err = fmt.Errorf("%s %s: the HTTP API responds %d: %.500s", method, path, answer.Status,
			bytes.TrimSpace(answer.Body))
	}

	return answer.Body, err
}

// SetProfile tells the bank simulator how it plays a bank; without a profile, as from the start.
func (c *Callers) SetProfile(ctx context.Context, ispb, profile string) error {
	method := http.MethodPut
	if profile == "" {
		method = http.MethodDelete
	}
	// no other key may do it
	answer, err := c.Send(ctx, method, "/v1/profiles/"+ispb, keys.CentralBank, []byte(profile))
	if err == nil && answer.Status/100 != 2 && (method != http.MethodDelete || answer.Status != http.StatusNotFound) {
		err = fmt.Errorf("the bank simulator responds %d: %.300s", answer.Status, answer.Body)
	}

	return err
}

// Payment returns an order in the form of the HTTP API.
func Payment(order *pixv1.PaymentOrder) client.Payment {
	account := func(a *pixv1.Account) client.Account {
		return client.Account{ISPB: a.GetIspb(), Branch: a.GetBranch(), Number: a.GetNumber()}
	}

	return client.Payment{EndToEndID: order.EndToEndId, Payer: account(order.Payer), Payee: account(order.Payee), AmountCentavos: int64(order.AmountCentavos)} //nolint:gosec // bounded
}
