package frontdoor

import (
	"encoding/json"
	"time"

	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/question"
	"github.com/liquida/liquida/services/producer/submission"
)

// The examples of the description are of the sandbox, so that they can be tried there.
const (
	exampleID       = "E1000000120260102120000000000001"
	exampleReturnID = "D1000000220260102120100000000001"
)

var (
	examplePayer = field.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	examplePayee = field.Account{ISPB: "10000002", Branch: "0001", Number: "1"}
	reservedAt   = time.Date(2026, 1, 2, 12, 0, 0, 123_456_789, time.UTC)
	expiresAt    = reservedAt.Add(time.Minute)
	decidedAt    = reservedAt.Add(40 * time.Millisecond)

	examplePayment = submission.Payment{Payer: examplePayer, Payee: examplePayee, AmountCentavos: 12345,
		RemittanceInformation: "lunch"}
	exampleReturn = submission.ReturnOrder{ReturnID: exampleReturnID, OriginalEndToEndID: exampleID,
		AmountCentavos: 345, ReasonCode: "MD06", AcceptedAt: "2026-01-02T12:01:00Z"}
	exampleSettled = query.Progress{Status: query.Settled, ReservedAt: &reservedAt, ExpiresAt: &expiresAt,
		DecidedAt: &decidedAt}
	exampleState = query.PaymentState{
		EndToEndID: exampleID, Progress: exampleSettled,
		AmountCentavos: 12345, Payer: &examplePayer, Payee: &examplePayee,
		Legs: []query.PaymentLeg{
			{Leg: 1, Debit: "customer/10000001/0001/1", Credit: "transit/10000001", AmountCentavos: 12345,
				State: "posted"},
			{Leg: 2, Debit: "reserve/10000001", Credit: "reserve/10000002", AmountCentavos: 12345, State: "posted"},
			{Leg: 3, Debit: "transit/10000002", Credit: "customer/10000002/0001/1", AmountCentavos: 12345,
				State: "posted"},
		},
	}
	exampleReturnState = query.ReturnState{
		ReturnID: exampleReturnID, OriginalEndToEndID: exampleID, Progress: exampleSettled,
		ReturnReasonCode: "MD06", AmountCentavos: 345, Payer: &examplePayee, Payee: &examplePayer,
	}
	exampleSettlement = feed.Settlement{EndToEndID: exampleID, Status: query.Settled, Payer: &examplePayer,
		Payee: &examplePayee, AmountCentavos: 12345, ReportedAt: decidedAt}
	exampleQuestion = question.Question{EndToEndID: exampleID, Payer: examplePayer, Payee: examplePayee,
		AmountCentavos: 12345, RemittanceInformation: "lunch", AskedAt: reservedAt.Format(time.RFC3339Nano),
		Deadline: reservedAt.Add(40 * time.Second).Format(time.RFC3339Nano), LeftMilliseconds: 39_998}
	exampleAnswers = question.Answers{
		Answers: []question.Answer{
			{Value: "CiBFMTAwMDAwMDEyMDI2MTEyMjE3NDUwMDAwMGFiY2RlZhIIMTAwMDAwMDIYAQ==",
				Seal: "r1ZPG7fxEtxhS91c5kD4z7w2SZ4eRv4k4JnwqonnvRk="}}}
	exampleBalance = query.Balance{PostedCentavos: 99_987_655, PendingOutCentavos: 12345,
		AvailableCentavos: 99_975_310}
	exampleStatement = query.Statement{NextCursor: "1767355200163456789",
		Lines: []query.StatementLine{
			{At: decidedAt, Kind: "posted", Direction: "debit", AmountCentavos: 12345, Code: 1, EndToEndID: exampleID}}}
	exampleDay = query.DayStatement{
		DayBalances: query.DayBalances{Participant: "10000001", Day: "2026-01-02",
			From: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 3, 3, 0, 0, 0, time.UTC),
			OpeningCentavos: 1_000_000_000_000, DebitCentavos: 12345, ClosingCentavos: 999_999_987_655},
		Lines: []query.DayLine{
			{At: decidedAt, Kind: "payment", ID: exampleID, Counterparty: "10000002", Direction: "debit",
				AmountCentavos: 12345, BalanceCentavos: 999_999_987_655}},
		Counterparties: []query.DaySum{{Counterparty: "10000002", Debits: 1, DebitCentavos: 12345}},
	}
	exampleParticipant = query.Participant{
		ISPB: "10000001", State: "active",
		Reserve: query.Balance{PostedCentavos: 999_999_987_655, AvailableCentavos: 999_999_987_655},
		Transit: query.Balance{PostedCentavos: -2_099_999_987_655, AvailableCentavos: -2_099_999_987_655},
		OutflowCaps: []query.OutflowCap{
			{When: "day", CapCentavos: 50_000_000, WindowSeconds: 3600, LeftCentavos: 49_987_655}},
		Keys:  []string{"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"},
		Seals: []query.Seal{{Digest: "60303ae22b998861bce3b28f33eec1be758a213c86c93c07"}},
		Books: &query.ThreeLegs{BooksCentavos: -1_100_000_000_000, Holds: true},
	}
	exampleAccount = query.AccountBalance{ISPB: "10000001", Branch: "0001", Number: "1", State: "open",
		Balance: exampleBalance}
	exampleParticipantAct = act.ParticipantAct{Act: "day-cap", CapCentavos: new(uint64(50_000_000)),
		WindowSeconds: 3600}
	exampleActDone = query.Act{ID: "5f0c1d5b2b8e4f6a9c3d7e1f2a4b6c8a", At: decidedAt, Participant: "10000001",
		Act: "day-cap", By: "central-bank", CapCentavos: new(int64(50_000_000)), WindowSeconds: 3600}
	exampleAccountAct = act.AccountAct{Act: "block"}
	exampleBlocked    = query.Act{ID: "0a1b2c3d4e5f60718293a4b5c6d7e8fa", At: decidedAt, Participant: "10000001",
		Act: "block", By: "10000001", Account: &examplePayer}
)

// Statements of days in other formats than JSON.
const (
	exampleDayCSV = query.DayColumns +
		"\r\nopening,2026-01-02T03:00:00Z,,,,,,1000000000000,\r\nline,2026-01-02T12:00:00.163456789Z,payment," +
		exampleID + ",10000002,debit,12345,999999987655,\r\nsum,,,,10000002,debit,12345,,1\r\nclosing,2026-01-03T03:00:00Z,,,,,,999999987655,1\r\n"
	exampleDayCamt = `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>…</BkToCstmrStmt></Document>`
)

// serverEvent is one event of a stream as clients see it.
type serverEvent struct {
	ID    string `json:"id,omitempty"`
	Event string `json:"event,omitempty" enum:"state,settlement"`
	Data  string `json:"data,omitempty" doc:"JSON. Left out in events that only keep the stream alive."`
}

func exampleEvent(id, name string, data any) serverEvent {
	return serverEvent{id, name, marshalled(data)}
}

func marshalled(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // impossible for our own types, as a test shows
	}

	return string(text)
}
