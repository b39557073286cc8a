package conform

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

// document is what banks write their software from.
const document = "../../docs/participant.md"

// rows returns the cells of all tables of the document, by the first cell.
func rows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(document)
	kit.Must(t, err)
	rows := map[string][]string{}

	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "); len(cells) > 1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows[cells[0]] = cells[1:]
		}
	}

	return rows
}

// A bank that counts on a table must not find another number in the code.
func TestTheDocumentForParticipantsIsTrue(t *testing.T) {
	document := rows(t)
	is := func(row, want string) {
		t.Helper()

		if got := strings.Join(document[row], " | "); !strings.HasPrefix(got, want) {
			t.Errorf("%s: row %q says %q and must begin with %q", "docs/participant.md", row, got, want)
		}
	}

	for _, topic := range stream.Topics {
		if cells := document["`"+topic.Name+"`"]; len(cells) != 5 || (cells[4] == "forever") != topic.KeepForever {
			t.Errorf("topic %s, kept forever %t: the document says %q", topic.Name, topic.KeepForever, cells)
		}
	}
	t.Setenv("KAFKA_BROKERS", "127.0.0.1:9092")
	t.Setenv("TELEMETRY_ADDRESS", "127.0.0.1:9103")
	config := &engine.Config{}
	kit.Must(t, settings.Parse(config))
	is("a record of any other topic", grouped(stream.MessageBytesMax)+" bytes")
	is("a batch of records, unpacked", grouped(stream.Config{}.BatchMax())+" bytes")
	is("`amount_centavos`", "1 to "+grouped(pix.AmountCentavosMax))
	is("`remittance_information`", fmt.Sprintf("%d bytes", pix.RemittanceInformationBytesMax))
	is("`accepted_at_unix_ms` from the minute in the id", fmt.Sprintf("%d hours", pix.ToleranceHours))
	is("`accepted_at_unix_ms` after the record's timestamp", fmt.Sprintf("%d seconds", pix.AcceptanceAheadSecondsMax))
	is("a return after its original settled", fmt.Sprintf("%d days", pix.ReturnDaysMax))
	is("returns of one payment", fmt.Sprint(ledger.ReturnSlots))
	is("copies of one order that wait", fmt.Sprint(config.CopiesMax))
	is("time for a response", fmt.Sprintf("%.0f seconds from", config.Deadline.Seconds()))
	is("the ledger's hold", fmt.Sprintf("%.0f seconds", config.PendingTimeout.Seconds()))

	const id = "E1000000120261122174500000abcdef"
	endToEndID, err := pix.ParseEndToEndID(id)
	kit.Must(t, err)
	payer, payee := pix.Account{ISPB: "10000001", Branch: "0001", Number: "7"},
		pix.Account{ISPB: "10000002", Branch: "0001", Number: "1"}
	is("account `"+payer.String()+"`", hex128(ledger.CustomerAccount(payer)))
	is("hold of leg 1 of `"+id+"`", hex128(ledger.IDsOf(endToEndID).Pending(1)))
	is("its verdict", hex128(ledger.IDsOf(endToEndID).Verdict()))
	is("content hash: from `"+payer.String()+"` to `"+payee.String()+"`, 12,345 centavos",
		fmt.Sprintf("`%016x`", pix.Content{Payer: payer, Payee: payee, AmountCentavos: 12345}.Hash()))

	response := &pixv1.AuthorizationResponse{EndToEndId: id, Ispb: "10000002",
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
	value, err := response.MarshalVT()
	kit.Must(t, err)
	secret := strings.Trim(document["secret"][0], "`")
	file := t.TempDir() + "/secrets"
	kit.Must(t, os.WriteFile(file, []byte("10000002 "+secret+"\n"), 0o600))
	seals, err := keys.ReadSeals(file)
	kit.Must(t, err)
	is("value: `end_to_end_id` `"+id+"`, `ispb` `10000002`, status `ACSP`", "`"+hex.EncodeToString(value)+"`")
	is("seal", "`"+hex.EncodeToString(seals.Seal("10000002", value))+"`")

	response.Status, response.ReasonCode = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, "AC06"
	if value, err = response.MarshalVT(); err != nil {
		t.Fatal(err)
	}
	is("value: the same, rejected: status `RJCT`, `reason_code` `AC06`", "`"+hex.EncodeToString(value)+"`")
	is("its seal", "`"+hex.EncodeToString(seals.Seal("10000002", value))+"`")
}

// hex128 returns all digits of an id, as the document prints them.
func hex128(id tb.Uint128) string { return fmt.Sprintf("`%032s`", id) }

func grouped[N int | uint64](n N) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}

	return text
}
