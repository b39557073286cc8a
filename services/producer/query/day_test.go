package query

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"
)

// What docs/closing.md says of each format, for one statement.
func TestTheFormatsOfAStatement(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 5000, time.UTC)
	balances := DayBalances{Participant: "10000001", Day: "2026-01-02", From: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 3, 3, 0, 0, 0, time.UTC),
		OpeningCentavos: 1000, CreditCentavos: 40, DebitCentavos: 105, ClosingCentavos: 935}
	lines := []DayLine{
		{At: at, Kind: "payment", ID: "E1", Counterparty: "10000002", Direction: "debit", AmountCentavos: 105, BalanceCentavos: 895},
		{At: at.Add(1), Kind: "return", ID: "D1", Counterparty: "10000002", Direction: "credit", AmountCentavos: 40, BalanceCentavos: 935},
	}
	sums := []DaySum{{Counterparty: "10000002", Credits: 1, CreditCentavos: 40, Debits: 1, DebitCentavos: 105}}
	for name, want := range map[string]string{
		"csv": `record,at,kind,id,counterparty,direction,amount_centavos,balance_centavos,count
opening,2026-01-02T03:00:00Z,,,,,,1000,
line,2026-01-02T12:00:00.000005Z,payment,E1,10000002,debit,105,895,
line,2026-01-02T12:00:00.000005001Z,return,D1,10000002,credit,40,935,
sum,,,,10000002,credit,40,,1
sum,,,,10000002,debit,105,,1
closing,2026-01-03T03:00:00Z,,,,,,935,2
`,
		"json": `{"participant":"10000001","day":"2026-01-02","from":"2026-01-02T03:00:00Z","to":"2026-01-03T03:00:00Z","opening_centavos":1000,"credit_centavos":40,"debit_centavos":105,"closing_centavos":935,
"lines":[
{"at":"2026-01-02T12:00:00.000005Z","kind":"payment","id":"E1","counterparty":"10000002","direction":"debit","amount_centavos":105,"balance_centavos":895},
{"at":"2026-01-02T12:00:00.000005001Z","kind":"return","id":"D1","counterparty":"10000002","direction":"credit","amount_centavos":40,"balance_centavos":935}],
"counterparties":[{"counterparty":"10000002","credits":1,"credit_centavos":40,"debits":1,"debit_centavos":105}]}
`,
		"camt053": `<?xml version="1.0" encoding="UTF-8"?>
<Document><BkToCstmrStmt>
<GrpHdr><MsgId>10000001-2026-01-02</MsgId><CreDtTm>2026-01-03T03:00:00Z</CreDtTm></GrpHdr>
<Stmt><Id>10000001-2026-01-02</Id><FrToDt><FrDtTm>2026-01-02T03:00:00Z</FrDtTm><ToDtTm>2026-01-03T03:00:00Z</ToDtTm></FrToDt>
<Acct><Id><Othr><Id>10000001</Id></Othr></Id><Ccy>BRL</Ccy></Acct>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">10.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-02</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">9.35</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-02</Dt></Dt></Bal>
<TxsSummry><TtlCdtNtries><Sum>0.40</Sum></TtlCdtNtries><TtlDbtNtries><Sum>1.05</Sum></TtlDbtNtries></TxsSummry>
<Ntry><NtryRef>E1</NtryRef><Amt Ccy="BRL">1.05</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><BookgDt><DtTm>2026-01-02T12:00:00.000005Z</DtTm></BookgDt><BkTxCd><Prtry><Cd>payment</Cd></Prtry></BkTxCd><NtryDtls><TxDtls><Refs><EndToEndId>E1</EndToEndId></Refs><RltdAgts><CdtrAgt><FinInstnId><ClrSysMmbId><MmbId>10000002</MmbId></ClrSysMmbId></FinInstnId></CdtrAgt></RltdAgts></TxDtls></NtryDtls></Ntry>
<Ntry><NtryRef>D1</NtryRef><Amt Ccy="BRL">0.40</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><BookgDt><DtTm>2026-01-02T12:00:00.000005001Z</DtTm></BookgDt><BkTxCd><Prtry><Cd>return</Cd></Prtry></BkTxCd><NtryDtls><TxDtls><Refs><TxId>D1</TxId></Refs><RltdAgts><DbtrAgt><FinInstnId><ClrSysMmbId><MmbId>10000002</MmbId></ClrSysMmbId></FinInstnId></DbtrAgt></RltdAgts></TxDtls></NtryDtls></Ntry>
</Stmt>
<SplmtryData><Envlp>
<Counterparty><MmbId>10000002</MmbId><Credits>1</Credits><CreditSum>0.40</CreditSum><Debits>1</Debits><DebitSum>1.05</DebitSum></Counterparty>
</Envlp></SplmtryData>
</BkToCstmrStmt></Document>
`,
	} {
		var text bytes.Buffer
		to := bufio.NewWriter(&text)
		w := dayFormats[name].write(to)
		w.begin(balances)
		for _, line := range lines {
			if err := w.line(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.end(balances, sums); err != nil || to.Flush() != nil || text.String() != want {
			t.Errorf("%s (%v) is\n%s\nwant\n%s", name, err, text.String(), want)
		}
	}
}

// Two parts of a day and the day itself are three statements.
func TestAPartOfADayHasItsOwnId(t *testing.T) {
	begins := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for to, want := range map[time.Time][2]string{
		begins.Add(24 * time.Hour):             {">10000001-2026-01-02<", "CLBD"},
		begins.Add(24*time.Hour - 1):           {">10000001-2026-01-02-86399999999999<", "ITBD"},
		begins.Add(time.Hour + 30*time.Minute): {">10000001-2026-01-02-5400000000000<", "ITBD"},
	} {
		var text bytes.Buffer
		w := bufio.NewWriter(&text)
		dayFormats["camt053"].write(w).begin(DayBalances{Participant: "10000001", Day: "2026-01-02", From: begins, To: to})
		if w.Flush() != nil || strings.Count(text.String(), want[0]) != 2 || strings.Count(text.String(), "<Cd>"+want[1]+"</Cd>") != 1 || strings.Count(text.String(), "BD</Cd>") != 2 {
			t.Errorf("until %v: %s", to, text.String())
		}
	}
}

// The ledger cannot be made to contradict itself: here lines are lost, doubled and changed.
func TestAStatementThatDoesNotSumUpIsNoStatement(t *testing.T) {
	balances := DayBalances{OpeningCentavos: 1000, CreditCentavos: 70, DebitCentavos: 30, ClosingCentavos: 1040}
	lines := []DayLine{{Direction: "credit", AmountCentavos: 70, Counterparty: "10000002"}, {Direction: "debit", AmountCentavos: 30, Counterparty: "10000003"}}
	prove := func(lines ...DayLine) error {
		sums := daySums{balance: balances.OpeningCentavos, by: map[string]*DaySum{}}
		for i := range lines {
			sums.add(&lines[i])
		}
		return sums.prove(balances)
	}
	if err := prove(lines...); err != nil {
		t.Error(err)
	}
	canceling := []DayLine{{Direction: "debit", AmountCentavos: 5}, {Direction: "credit", AmountCentavos: 5}}
	for name, wrong := range map[string][]DayLine{
		"none": nil, "one is lost": lines[:1], "one comes twice": {lines[0], lines[1], lines[1]},
		"an amount": {lines[0], {Direction: "debit", AmountCentavos: 31}}, "a direction": {lines[0], {Direction: "credit", AmountCentavos: 30}},
		"two that cancel each other": append(canceling, lines...),
	} {
		if err := prove(wrong...); err == nil || !strings.Contains(err.Error(), "broken law") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
