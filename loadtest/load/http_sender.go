package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// httpSender sends payments by POST /v1/payments.
type httpSender struct {
	url    string
	keys   map[string]string // of the banks, by ISPB
	client *http.Client
}

// NewHTTPClient returns a client that keeps up to 256 connections: with one connection for
// each request a load would measure connecting. Waiting for a connection counts as latency.
func NewHTTPClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxConnsPerHost: 256, MaxIdleConnsPerHost: 256}}
}

// passes returns an error for cases that the HTTP API denies, or that need the place of
// their record.
func (h *httpSender) passes(schedule []mix.Case) error {
	for _, c := range schedule {
		if c != mix.Accepted && c != mix.SameBank && c != mix.Hottest {
			return fmt.Errorf("payments of the case %s cannot be sent over HTTP", c)
		}
	}
	return nil
}

// nowhere is the record of a message whose place in the topic is unknown.
var nowhere = record{-1, -1}

// post sends one order. It returns nil if the API accepted it.
func (h *httpSender) post(value []byte) error {
	var order pixv1.PaymentOrder
	if err := order.UnmarshalVT(value); err != nil {
		return err
	}
	type account struct {
		ISPB   string `json:"ispb"`
		Branch string `json:"branch"`
		Number string `json:"number"`
	}
	body, err := json.Marshal(struct {
		EndToEndID     string  `json:"end_to_end_id"`
		Payer          account `json:"payer"`
		Payee          account `json:"payee"`
		AmountCentavos uint64  `json:"amount_centavos"`
	}{
		order.EndToEndId,
		account{order.Payer.Ispb, order.Payer.Branch, order.Payer.Number},
		account{order.Payee.Ispb, order.Payee.Branch, order.Payee.Number},
		order.AmountCentavos,
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, h.url+"/v1/payments", bytes.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+h.keys[order.Payer.Ispb])
	response, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096)) // to the end, so that the connection is kept
	if err == nil && response.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("the HTTP API responds %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return err
}
