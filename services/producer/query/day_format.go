package query

import (
	"bufio"
	"encoding/json"
	"fmt"

	"github.com/liquida/liquida/platform/pix"
)

// dayFormat is a format of statements of days.
type dayFormat struct {
	mediaType string
	write     func(*bufio.Writer) dayWriter
}

// dayFormats are the formats by name. Each is a function of the statement alone, so the same
// statement has the same bytes.
var dayFormats = map[string]dayFormat{
	"json":    {"application/json", func(to *bufio.Writer) dayWriter { return &dayJSON{to: to} }},
	"csv":     {"text/csv", func(to *bufio.Writer) dayWriter { return &dayCSV{to: to} }},
	"camt053": {"application/xml", func(to *bufio.Writer) dayWriter { return &dayCamt{to: to} }},
}

// dayWriter writes a statement: the balances, each line, the sums. No text in a statement needs quotes, and a
// spreadsheet takes none for a formula: it is made of ids, names of accounts and numbers. A bufio.Writer keeps its
// first error, so only lines report it.
type dayWriter interface {
	begin(DayBalances)
	line(DayLine) error
	end(DayBalances, []DaySum) error
}

// dayJSON writes a DayStatement, each line on a line of its own.
type dayJSON struct {
	to      *bufio.Writer
	between string // before a line
}

func (j *dayJSON) begin(b DayBalances) {
	text := encoded(b)
	fmt.Fprintf(j.to, "%s,\n\"lines\":[", text[:len(text)-1])
}

func (j *dayJSON) line(line DayLine) error {
	_, err := fmt.Fprintf(j.to, "%s\n%s", j.between, encoded(line))
	j.between = ","
	return err
}

func (j *dayJSON) end(_ DayBalances, sums []DaySum) error {
	_, err := fmt.Fprintf(j.to, "],\n\"counterparties\":%s}\n", encoded(sums))
	return err
}

func encoded(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // impossible for these types
	}

	return text
}

// dayCSV writes one table, as RFC 4180 says: one header, CRLF. The closing row is the last one, so a
// file without it is not whole.
type dayCSV struct {
	to    *bufio.Writer
	lines int64
}

// DayColumns are the columns of a statement in CSV.
const DayColumns = "record,at,kind,id,counterparty,direction,amount_centavos,balance_centavos,count"

func (c *dayCSV) begin(b DayBalances) {
	fmt.Fprintf(c.to, "%s\r\nopening,%s,,,,,,%d,\r\n", DayColumns, instant(b.From), b.OpeningCentavos)
}

func (c *dayCSV) line(l DayLine) error {
	c.lines++
	_, err := fmt.Fprintf(c.to, "line,%s,%s,%s,%s,%s,%d,%d,\r\n", instant(l.At), l.Kind, l.ID, l.Counterparty,
		l.Direction, l.AmountCentavos, l.BalanceCentavos)

	return err
}

func (c *dayCSV) end(b DayBalances, sums []DaySum) error {
	for _, s := range sums {
		if s.Credits > 0 {
			fmt.Fprintf(c.to, "sum,,,,%s,credit,%d,,%d\r\n", s.Counterparty, s.CreditCentavos, s.Credits)
		}

		if s.Debits > 0 {
			fmt.Fprintf(c.to, "sum,,,,%s,debit,%d,,%d\r\n", s.Counterparty, s.DebitCentavos, s.Debits)
		}
	}
	_, err := fmt.Fprintf(c.to, "closing,%s,,,,,,%d,%d\r\n", instant(b.To), b.ClosingCentavos, c.lines)

	return err
}

// dayCamt writes a camt.053.001.08. Amounts are reais with two decimals. The dates are São Paulo's day:
// programs sort entries by them, and a day in UTC would end at 21:00. The exact instant is TxDtTm.
type dayCamt struct {
	to  *bufio.Writer
	day string
}

func (c *dayCamt) begin(b DayBalances) {
	c.day = b.Day

	id, closing := b.Participant+"-"+b.Day, "CLBD"
	if day, err := pix.ParseDay(b.Day); err == nil && b.To.Before(day.Next().Begins()) { // a part of the day
		id, closing = fmt.Sprintf("%s-%d", id, b.To.Sub(b.From)), "ITBD" // at most 35 characters, as in ISO 20022
	}
	fmt.Fprintf(c.to, `<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>
<GrpHdr><MsgId>%[1]s</MsgId><CreDtTm>%[4]s</CreDtTm></GrpHdr>
<Stmt><Id>%[1]s</Id><FrToDt><FrDtTm>%[3]s</FrDtTm><ToDtTm>%[4]s</ToDtTm></FrToDt>
<Acct><Id><Othr><Id>%[2]s</Id></Othr></Id><Ccy>BRL</Ccy></Acct>
`, id, b.Participant, instant(b.From), instant(b.To))

	for _, balance := range []struct {
		kind     string
		centavos int64
	}{{"OPBD", b.OpeningCentavos}, {closing, b.ClosingCentavos}} {
		fmt.Fprintf(c.to, "<Bal><Tp><CdOrPrtry><Cd>%s</Cd></CdOrPrtry></Tp><Amt Ccy=\"BRL\">%s</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>%s</Dt></Dt></Bal>\n",
			balance.kind, inReais(balance.centavos), b.Day)
	}
	fmt.Fprintf(c.to, "<TxsSummry><TtlCdtNtries><Sum>%s</Sum></TtlCdtNtries><TtlDbtNtries><Sum>%s</Sum></TtlDbtNtries></TxsSummry>\n",
		inReais(b.CreditCentavos), inReais(b.DebitCentavos))
}

func (c *dayCamt) line(l DayLine) error {
	indicator, agent := "CRDT", "DbtrAgt"
	if l.Direction == "debit" {
		indicator, agent = "DBIT", "CdtrAgt"
	}

	reference := "TxId"
	if l.Kind == "payment" {
		reference = "EndToEndId"
	}
	other := "<ClrSysMmbId><MmbId>" + l.Counterparty + "</MmbId></ClrSysMmbId>"
	// an account's name may be longer than the 35 characters of a member's id
	if _, err := pix.ParseISPB(l.Counterparty); err != nil {
		other = "<Nm>" + l.Counterparty + "</Nm>"
	}
	_, err := fmt.Fprintf(c.to,
		"<Ntry><NtryRef>%[1]s</NtryRef><Amt Ccy=\"BRL\">%[2]s</Amt><CdtDbtInd>%[3]s</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>"+
			"<BookgDt><Dt>%[9]s</Dt></BookgDt><ValDt><Dt>%[9]s</Dt></ValDt><BkTxCd><Prtry><Cd>%[5]s</Cd></Prtry></BkTxCd>"+
			"<NtryDtls><TxDtls><Refs><AcctSvcrRef>%[1]s</AcctSvcrRef><%[6]s>%[1]s</%[6]s></Refs>"+
			"<RltdAgts><%[7]s><FinInstnId>%[8]s</FinInstnId></%[7]s></RltdAgts>"+
			"<RltdDts><TxDtTm>%[4]s</TxDtTm></RltdDts></TxDtls></NtryDtls></Ntry>\n",
		l.ID, inReais(l.AmountCentavos), indicator, instant(l.At), l.Kind, reference, agent, other, c.day)

	return err
}

func (c *dayCamt) end(_ DayBalances, sums []DaySum) error {
	fmt.Fprint(c.to, "</Stmt>\n<SplmtryData><Envlp><Counterparties xmlns=\"urn:liquida:statement\">\n")

	for _, s := range sums {
		fmt.Fprintf(c.to, "<Counterparty><MmbId>%s</MmbId><Credits>%d</Credits><CreditSum>%s</CreditSum><Debits>%d</Debits><DebitSum>%s</DebitSum></Counterparty>\n",
			s.Counterparty, s.Credits, inReais(s.CreditCentavos), s.Debits, inReais(s.DebitCentavos))
	}
	_, err := fmt.Fprint(c.to, "</Counterparties></Envlp></SplmtryData>\n</BkToCstmrStmt></Document>\n")

	return err
}

// inReais writes centavos as reais. A reserve is never negative, nor is a sum.
func inReais(centavos int64) string { return fmt.Sprintf("%d.%02d", centavos/100, centavos%100) }
