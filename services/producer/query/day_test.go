package query

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// What docs/closing.md says of each format, for one statement.
func TestTheFormatsOfAStatement(t *testing.T) {
	at := time.Date(2026, 1, 3, 2, 59, 59, 5000, time.UTC) // São Paulo's 2026-01-02
	balances := DayBalances{Participant: "10000001", Day: "2026-01-02",
		From: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 3, 3, 0, 0, 0, time.UTC),
		OpeningCentavos: 1000, CreditCentavos: 40, DebitCentavos: 105, ClosingCentavos: 935}
	lines := []DayLine{
		{At: at, Kind: "payment", ID: "E1", Counterparty: "10000002", Direction: "debit", AmountCentavos: 105,
			BalanceCentavos: 895},
		{At: at.Add(1), Kind: "return", ID: "D1", Counterparty: "central-bank", Direction: "credit", AmountCentavos: 40,
			BalanceCentavos: 935},
	}
	sums := []DaySum{{Counterparty: "10000002", Credits: 1, CreditCentavos: 40, Debits: 1, DebitCentavos: 105}}

	for name, want := range map[string]string{
		"csv": `record,at,kind,id,counterparty,direction,amount_centavos,balance_centavos,count
opening,2026-01-02T03:00:00Z,,,,,,1000,
line,2026-01-03T02:59:59.000005Z,payment,E1,10000002,debit,105,895,
line,2026-01-03T02:59:59.000005001Z,return,D1,central-bank,credit,40,935,
sum,,,,10000002,credit,40,,1
sum,,,,10000002,debit,105,,1
closing,2026-01-03T03:00:00Z,,,,,,935,2
`,
		"json": `{"participant":"10000001","day":"2026-01-02","from":"2026-01-02T03:00:00Z","to":"2026-01-03T03:00:00Z","opening_centavos":1000,"credit_centavos":40,"debit_centavos":105,"closing_centavos":935,
"lines":[
{"at":"2026-01-03T02:59:59.000005Z","kind":"payment","id":"E1","counterparty":"10000002","direction":"debit","amount_centavos":105,"balance_centavos":895},
{"at":"2026-01-03T02:59:59.000005001Z","kind":"return","id":"D1","counterparty":"central-bank","direction":"credit","amount_centavos":40,"balance_centavos":935}],
"counterparties":[{"counterparty":"10000002","credits":1,"credit_centavos":40,"debits":1,"debit_centavos":105}]}
`,
		"camt053": `<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>
<GrpHdr><MsgId>10000001-2026-01-02</MsgId><CreDtTm>2026-01-03T03:00:00Z</CreDtTm></GrpHdr>
<Stmt><Id>10000001-2026-01-02</Id><FrToDt><FrDtTm>2026-01-02T03:00:00Z</FrDtTm><ToDtTm>2026-01-03T03:00:00Z</ToDtTm></FrToDt>
<Acct><Id><Othr><Id>10000001</Id></Othr></Id><Ccy>BRL</Ccy></Acct>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">10.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-02</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">9.35</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-02</Dt></Dt></Bal>
<TxsSummry><TtlCdtNtries><Sum>0.40</Sum></TtlCdtNtries><TtlDbtNtries><Sum>1.05</Sum></TtlDbtNtries></TxsSummry>
<Ntry><NtryRef>E1</NtryRef><Amt Ccy="BRL">1.05</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>2026-01-02</Dt></BookgDt><ValDt><Dt>2026-01-02</Dt></ValDt><BkTxCd><Prtry><Cd>payment</Cd></Prtry></BkTxCd><NtryDtls><TxDtls><Refs><AcctSvcrRef>E1</AcctSvcrRef><EndToEndId>E1</EndToEndId></Refs><RltdAgts><CdtrAgt><FinInstnId><ClrSysMmbId><MmbId>10000002</MmbId></ClrSysMmbId></FinInstnId></CdtrAgt></RltdAgts><RltdDts><TxDtTm>2026-01-03T02:59:59.000005Z</TxDtTm></RltdDts></TxDtls></NtryDtls></Ntry>
<Ntry><NtryRef>D1</NtryRef><Amt Ccy="BRL">0.40</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>2026-01-02</Dt></BookgDt><ValDt><Dt>2026-01-02</Dt></ValDt><BkTxCd><Prtry><Cd>return</Cd></Prtry></BkTxCd><NtryDtls><TxDtls><Refs><AcctSvcrRef>D1</AcctSvcrRef><TxId>D1</TxId></Refs><RltdAgts><DbtrAgt><FinInstnId><Nm>central-bank</Nm></FinInstnId></DbtrAgt></RltdAgts><RltdDts><TxDtTm>2026-01-03T02:59:59.000005001Z</TxDtTm></RltdDts></TxDtls></NtryDtls></Ntry>
</Stmt>
<SplmtryData><Envlp><Counterparties xmlns="urn:liquida:statement">
<Counterparty><MmbId>10000002</MmbId><Credits>1</Credits><CreditSum>0.40</CreditSum><Debits>1</Debits><DebitSum>1.05</DebitSum></Counterparty>
</Counterparties></Envlp></SplmtryData>
</BkToCstmrStmt></Document>
`,
	} {
		if name == "csv" {
			want = strings.ReplaceAll(want, "\n", "\r\n")
		}

		if text := written(t, name, balances, lines, sums); text != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, text, want)
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
		dayFormats["camt053"].write(w).begin(
			DayBalances{Participant: "10000001", Day: "2026-01-02", From: begins, To: to})

		if w.Flush() != nil || strings.Count(text.String(), want[0]) != 2 ||
			strings.Count(text.String(), "<Cd>"+want[1]+"</Cd>") != 1 || strings.Count(text.String(), "BD</Cd>") != 2 {
			t.Errorf("until %v: %s", to, text.String())
		}
	}
}

// Whatever moved a reserve, even a forged transfer: a statement is a table as RFC 4180 says in which a
// spreadsheet finds no formula, and an XML whose texts fit ISO 20022's 35 characters.
func TestNoTextInAStatementNeedsQuotes(t *testing.T) {
	reserve := ledger.ReserveAccount("10000001")
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.Uint64(), 8, 8).Draw(t, "words")
		number := func(high, low uint64) tb.Uint128 {
			var b [16]byte
			binary.LittleEndian.PutUint64(b[:8], low)
			binary.LittleEndian.PutUint64(b[8:], high)

			return tb.BytesToUint128(b)
		}
		kind := rapid.Uint64Range(0, 15).Draw(t, "kind") << 60
		transfer := tb.Transfer{ID: number(words[0], words[1]), DebitAccountID: number(kind|words[2]>>4, words[3]),
			CreditAccountID: reserve, Amount: tb.ToUint128(1 + words[4]>>2),
			UserData128: number(words[5], words[6]), UserData64: words[7], Code: rapid.Uint16().Draw(t, "code"),
			Timestamp: words[4]>>1 + 1}

		line, moved := dayLineOf(&transfer, reserve)
		if !moved {
			t.Fatalf("%+v moved nothing", transfer)
		}

		text := written(t, "csv", DayBalances{Participant: "10000001", Day: "2026-01-02"}, []DayLine{line},
			[]DaySum{{Counterparty: line.Counterparty, Credits: 1}})
		if strings.Count(text, "\n") != strings.Count(text, "\r\n") || strings.Count(text, "record,") != 1 {
			t.Fatalf("lines do not end in CRLF, or there is not one header: %q", text)
		}

		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil || len(rows) != 5 || len(rows[0]) != 9 {
			t.Fatalf("%v %q", err, text)
		}

		for _, row := range rows {
			for _, value := range row {
				if strings.ContainsAny(value, "\"'&<>;\t") || value != "" && strings.ContainsAny(value[:1], "=+-@ ") {
					t.Fatalf("%q in %q", value, text)
				}
			}
		}

		if len(line.ID) > 35 || len(line.Kind) > 35 || len(line.Counterparty) > 140 {
			t.Fatalf("too long for camt.053: %+v", line)
		}
	})
}

// written returns a statement in a format.
func written(t interface{ Fatal(...any) }, format string, balances DayBalances, lines []DayLine, sums []DaySum) string {
	var text bytes.Buffer
	to := bufio.NewWriter(&text)
	w := dayFormats[format].write(to)
	w.begin(balances)

	for _, line := range lines {
		if err := w.line(line); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.end(balances, sums); err != nil || to.Flush() != nil {
		t.Fatal(err)
	}

	return text.String()
}

// What programs of others read from a whole file is what the statement says: quiet and busy days,
// finished ones and parts. make test-statements installs the programs and runs this.
func TestProgramsOfOthersReadAStatement(t *testing.T) {
	python := os.Getenv("STATEMENT_READERS")
	if python == "" {
		t.Skip("STATEMENT_READERS does not name a Python that has the programs: make test-statements does")
	}
	day := pix.DayOf(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	begins, ends := day.Begins(), day.Next().Begins()
	kinds := []struct{ kind, counterparty, format string }{
		{"payment", "10000002", "E100000012026010212%013d"}, {"payment", "10000003", "E100000032026010223%013d"},
		{"return", "10000002", "D100000022026010212%013d"},
		{"liquidity", "central-bank", "%032x"}, {"code 65535", "customer/10000001/9999/12345678901234567890", "%032x"},
	}

	for name, c := range map[string]struct {
		until time.Time
		lines int
	}{
		"quiet": {ends, 0}, "busy": {ends, 3000}, "quiet part": {begins.Add(time.Hour), 0},
		"busy part": {ends.Add(-1), 500},
	} {
		t.Run(name, func(t *testing.T) {
			b := DayBalances{Participant: "10000001", Day: day.String(), From: begins, To: c.until,
				OpeningCentavos: 100_000_000}
			sums := daySums{balance: b.OpeningCentavos, by: map[string]*DaySum{}}
			lines := make([]DayLine, c.lines)

			want := make([]readEntry, c.lines)
			for i := range lines { // the last one in the last instant
				of := kinds[i%len(kinds)]
				lines[i] = DayLine{At: begins.Add(c.until.Sub(begins)/time.Duration(c.lines)*time.Duration(i+1) - 1),
					Kind: of.kind, Counterparty: of.counterparty,
					ID: fmt.Sprintf(of.format, i), Direction: []string{"credit", "debit"}[i/2%2],
					AmountCentavos: int64(1 + i*7)}
				sums.add(&lines[i])

				want[i] = readEntry{lines[i].ID, day.String(), lines[i].AmountCentavos}
				if lines[i].Direction == "debit" {
					want[i].Centavos *= -1
				}
			}
			b.CreditCentavos, b.DebitCentavos, b.ClosingCentavos = sums.credit, sums.debit, sums.balance

			path := filepath.Join(t.TempDir(), "statement.xml")
			if err := os.WriteFile(path, []byte(written(t, "camt053", b, lines, sums.sorted())), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), python, "testdata/read_statement.py", path)
			command.Stderr = os.Stderr

			said, err := command.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}

			var read map[string]struct {
				Error            string
				Opening, Closing *int64
				Entries          []readEntry
			}
			if err := json.Unmarshal(said, &read); err != nil || len(read) != 5 {
				t.Fatalf("%v: %s", err, said)
			}

			for program, r := range read {
				switch {
				case program == "ofxstatement-iso20022" && strings.Contains(name, "part"):
					// it wants a closing balance, which a part of a day does not have
					if !strings.Contains(r.Error, "CLBD") {
						t.Errorf("%s: %q", program, r.Error)
					}

					continue
				case r.Error != "":
					t.Errorf("%s: %s", program, r.Error)
				case program == "schema":
					continue
				case program == "odoo" && c.lines == 0: // Odoo leaves out a statement without entries
					continue
				case r.Opening == nil || *r.Opening != b.OpeningCentavos || r.Closing == nil ||
					*r.Closing != b.ClosingCentavos:
					t.Errorf("%s: balances %v %v, want %+v", program, r.Opening, r.Closing, b)
				}

				if !slices.Equal(r.Entries, want) {
					t.Errorf("%s reads %d entries, from %+v; want %d, from %+v", program, len(r.Entries),
						r.Entries[:min(3, len(r.Entries))], len(want), want[:min(3, len(want))])
				}
			}
		})
	}
}

// readEntry is an entry as another program reads it; a debit is negative.
type readEntry struct {
	ID, Day  string
	Centavos int64
}

// The ledger cannot be made to contradict itself: here lines are lost, doubled and changed.
func TestAStatementThatDoesNotSumUpIsNoStatement(t *testing.T) {
	balances := DayBalances{OpeningCentavos: 1000, CreditCentavos: 70, DebitCentavos: 30, ClosingCentavos: 1040}
	lines := []DayLine{{Direction: "credit", AmountCentavos: 70, Counterparty: "10000002"},
		{Direction: "debit", AmountCentavos: 30, Counterparty: "10000003"}}

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
		"an amount":                  {lines[0], {Direction: "debit", AmountCentavos: 31}},
		"a direction":                {lines[0], {Direction: "credit", AmountCentavos: 30}},
		"two that cancel each other": append(canceling, lines...),
	} {
		if err := prove(wrong...); err == nil || !strings.Contains(err.Error(), "broken law") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
