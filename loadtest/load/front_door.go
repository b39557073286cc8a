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

// frontDoor sends payments as a bank's customer does, by POST /v1/payments.
type frontDoor struct {
	url    string
	keys   map[string]string // of the banks, by ISPB
	client *http.Client
}

// NewHTTPClient keeps its connections, at most 256 of them: a load that opened one for each
// request would measure that. A request that waits for one is on its way already.
func NewHTTPClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxConnsPerHost: 256, MaxIdleConnsPerHost: 256}}
}

// passes refuses cases that the front door would not let in, or that need to know where
// their record is.
func (m *frontDoor) passes(schedule []mix.Case) error {
	for _, c := range schedule {
		if c != mix.Accepted && c != mix.SameBank && c != mix.Hottest {
			return fmt.Errorf("payments of the case %s cannot be sent through the front door", c)
		}
	}
	return nil
}

// nowhere is the record of a payment whose place in the topic its sender does not know.
var nowhere = record{-1, -1}

// post sends one order and returns nil when it was accepted.
func (m *frontDoor) post(value []byte) error {
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
	request, err := http.NewRequest(http.MethodPost, m.url+"/v1/payments", bytes.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+m.keys[order.Payer.Ispb])
	response, err := m.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096)) // to the end, so that the connection is kept
	if err == nil && response.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("the front door answers %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return err
}
