package mutants

// The folders of the product in which bugs are planted.
const (
	engine   = "services/clearing-engine/engine/"
	payment  = "services/clearing-engine/payment/"
	ledger   = "platform/ledger/"
	pix      = "platform/pix/"
	kafka    = "platform/stream/"
	keys     = "platform/keys/"
	producer = "services/producer/"
	register = "platform/register/"
)

// inEveryOrder drives the engine's decision through every order of events.
var inEveryOrder = Sure{engine, "TestEveryOrderOfEvents"}

// withoutTheBroker asks the front door to take payments while there is no broker.
var withoutTheBroker = Sure{producer, "TestWithTheBrokerAwayTheFateIsUnknownAndTheIdIsNamed"}

// sure lists what finds a mutant each time that worlds find by luck.
var sure = map[string]Sure{
	"hint-one-too-many":          {engine, "TestHintStaysWithinTheBrokersLimitAndIsNeverWrong"},
	"hint-without-first":         {engine, "TestHintHoldsAllOfWhatIsUnreadable"},
	"overtaken-committed":        {engine, "TestOffsetsOfWhatWasOvertaken"},
	"late-by-itself":             {engine, "TestWhatCameLateIsNotRefusedForTheOverload"},
	"report-unacknowledged":      inEveryOrder,
	"other-contents-outcome":     {producer, "TestAnIDThatTheLedgerKnowsNamesOnePayment"},
	"verdict-of-another-ignored": inEveryOrder,
	"response-of-a-stranger":     {engine, "TestABankNeitherFloodsTheLogNorBlamesAnother"},
	"seals-unchecked":            {engine, "TestAResponseNeedsTheSealOfItsBank"},
	"copies-unchecked":           inEveryOrder,
	"held-refused":               inEveryOrder,
	"register-never-stale":       {"deploy/ledgerfacts/", "TestAStaleRegister"},
	"stale-chains-sent":          {ledger, "TestKeepBack"},
	"cap-void-alone":             inEveryOrder,
	"cap-stops-a-void":           {engine, "TestAVoidGoesOnWithoutItsLeg4"},
	"cap-told-as-no-account":     inEveryOrder,
	"accepted-before-kafka":      withoutTheBroker,
	"accepted-unacknowledged":    withoutTheBroker,
	"day-unproved":               {producer, "TestAWrongStatementIsNotWhole"},    // in worlds the ledger does not contradict itself
	"seal-of-any-bank":           {keys, "TestOnlyTheBankItselfSealsItsAnswers"}, // in worlds a forger must be faster than the bank
}

// All lists the planted bugs, by what they break.
var All = []Mutant{
	// Offsets: what is committed, and what is redelivered.
	{"commit-before-verdict", "an offset is committed before phase 2", anyWorld, []Edit{
		{engine + "offsets.go", "for s.start < len(s.window) && s.window[s.start].finished {", "for s.start < len(s.window) && (s.window[s.start].finished || s.window[s.start].taken) {"},
		{engine + "offsets.go", "	if e == nil || e.finished {\n		broken(", "	if e == nil {\n		return\n	}\n	if e.finished {\n		broken("},
	}},
	{"commit-highest", "the highest finished offset is committed, not the lowest unfinished one", anyWorld, []Edit{
		{engine + "offsets.go", "	o.changed = false\n", `	o.changed = false
	for i := range s.window[s.start:] {
		if s.window[s.start+i].finished {
			s.next = s.window[s.start+i].offset + 1
		}
	}
`},
		{engine + "offsets.go", "s.window[s.start].first < s.next) {", "false) {"},
	}},
	{"hint-one-too-many", "the hint of a commit holds one unfinished offset behind each finished span", anyWorld, []Edit{
		{engine + "offsets.go", "			if !yield(span) {", "			if span.To++; !yield(span) {"},
	}},
	{"hint-without-first", "the hint of a commit holds only the last offset of a batch that cannot be read", anyWorld, []Edit{
		{engine + "offsets.go", "stream.Span{From: window[i].first,", "stream.Span{From: window[i].offset,"},
	}},
	{"overtaken-committed", "what younger orders have overtaken is committed as if it were finished", anyWorld, []Edit{
		{engine + "offsets.go", "o.stretches[0].next == o.stretches[1].first {", "o.stretches[0].start == len(o.stretches[0].window) {"},
	}},
	{"report-unacknowledged", "an offset is finished before Kafka has the report", anyWorld, []Edit{
		{engine + "command.go", ", func() { p.inbox.put(event{kind: reported, flight: f}) })\n		p.engine.crash.Pass(afterReportProduced)", ", func() {})\n		p.inbox.put(event{kind: reported, flight: f})\n		p.engine.crash.Pass(afterReportProduced)"},
	}},
	{"waiter-unfinished", "the offset of a copy that shares a report is never finished", anyWorld, []Edit{
		{engine + "waiter.go", "			p.finishOffset(w.offset)\n", ""},
	}},

	// The decision.
	{"post-although-rejected", "a payment is posted although the bank rejected it", anyWorld, []Edit{
		{payment + "payment.go", "	case accepted:\n		p.Outcome", "	case accepted, reason != pix.ReasonNone:\n		p.Outcome"},
	}},
	{"void-although-accepted", "one accepted payment in sixteen is voided with AB03", anyWorld, []Edit{
		{payment + "payment.go", "	case p.due(now):\n		return p.void(pix.ReasonPayeePSPSilent)\n	case accepted:", "	case p.due(now), accepted && p.Order.AmountCentavos%16 == 0:\n		return p.void(pix.ReasonPayeePSPSilent)\n	case accepted:"},
	}},
	{"deadline-late", "the deadline is four seconds late", anyWorld, []Edit{
		{payment + "payment.go", "	p := Payment{Order: order,", "	patience += 4 * time.Second\n	p := Payment{Order: order,"},
	}},
	{"deadline-early", "the deadline is four seconds early", "TestForgedAnswersAreNotBelieved", []Edit{
		{payment + "payment.go", "	p := Payment{Order: order,", "	patience -= 4 * time.Second\n	p := Payment{Order: order,"},
	}},
	{"deadline-from-first-sight", "the deadline begins when this engine first sees the order", anyWorld, []Edit{
		{payment + "payment.go", "	if due := now.Add(start.Add(p.patience).Sub(now)); due.Before(p.dueAt) {", "	if due := now.Add(start.Add(p.patience).Sub(now)); false {"},
	}},
	{"never-due", "a payment whose bank is silent waits forever", anyWorld, []Edit{
		{payment + "payment.go", "	if p.step != authorizing || !p.due(now) {", "	if p.step != authorizing || p.due(now) {"},
	}},
	{"verdict-of-another-ignored", "an engine that lost the race for a verdict reports its own", anyWorld, []Edit{
		{payment + "payment.go", "	case result == Written:\n", "	case result == Written, result == Taken:\n"},
	}},
	{"response-of-a-stranger", "a bank that was not asked decides", anyWorld, []Edit{
		{engine + "life.go", "	case f.payment.Order.Payee.ISPB != r.psp:", "	case false:"},
	}},
	{"seals-unchecked", "responses are taken without their bank's seal", anyWorld, []Edit{
		{engine + "responses.go", "if e.seals != nil && !e.genuine(", "if false && !e.genuine("},
	}},
	{"seal-of-any-bank", "a seal is good if any bank made it", anyWorld, []Edit{
		{keys + "seals.go", "	for i := range s[bank] {\n		if secret := &s[bank][i]; hmac", "	for _, of := range s {\n		if secret := &of[0]; hmac"},
	}},

	// Refusals.
	{"short-for-missing", "LQ01 and AC02 are exchanged", anyWorld, []Edit{
		{engine + "payment.go", "        pix.ReasonPayerShort,", "        pix.ReasonPayerMissing,"},
		{payment + "payment.go", "return p.refuse(pix.ReasonPayerMissing)", "return p.refuse(pix.ReasonPayerShort)"},
	}},
	{"busy-for-nothing", "one payment in sixteen is refused with LQ02 although its bank answers", anyWorld, []Edit{
		{engine + "limits.go", "	open, stuck := asked.count()\n", "	open, stuck := asked.count()\n	if order.AmountCentavos%16 == 0 {\n		return pix.ReasonPayeePSPBusy, false\n	}\n"},
	}},
	{"too-late-for-nothing", "an order older than a second is refused with LQ10", "TestEngineCutFromEverything", []Edit{
		{engine + "overload.go", "> deadline-p.need(deadline)\n", "> time.Second\n"},
	}},
	{"late-by-itself", "an order that came after its deadline is refused with LQ10 if younger ones overtook it", anyWorld, []Edit{
		{engine + "life.go", " && !cameLate(f.record, order, deadline):", ":"},
	}},
	{"silent-for-nothing", "one payment in sixteen is refused with AB03 on arrival", anyWorld, []Edit{
		{payment + "payment.go", "	case p.due(now):\n		p.refusal = pix.ReasonPayeePSPSilent", "	case p.due(now), p.Order.AmountCentavos%16 == 0:\n		p.refusal = pix.ReasonPayeePSPSilent"},
	}},
	{"inactive-for-nothing", "one payment in sixteen is refused with DS27 although both banks are active", anyWorld, []Edit{
		{engine + "payment.go", "	if state.Suspended(order.Payer.ISPB) || state.Suspended(order.Payee.ISPB) {", "	if order.AmountCentavos%16 == 0 {"},
	}},
	{"held-refused", "a payment that is held may be refused after a restart: the look-up before it does not ask for the hold", anyWorld, []Edit{
		{ledger + "trace.go", "return append(ids, payment.Pending(1), payment.Verdict())", "return append(ids, payment.Verdict())"},
	}},
	{"copies-turned-away", "every copy of an order in flight is a dead letter LQ09", anyWorld, []Edit{
		{engine + "waiter.go", "len(f.waiting) >= p.engine.config.CopiesMax", "len(f.waiting) >= 0"},
	}},
	{"returns-turned-away", "returns of a payment are refused with LQ11 from the second on", anyWorld, []Edit{
		{engine + "rate.go", "if at.Sub(now) >= returnsAtOnce*r.interval {", "if at.Sub(now) >= r.interval/2 {"},
	}},
	{"id-taken-for-nothing", "a redelivery is a dead letter LQ07", anyWorld, []Edit{
		{engine + "payment.go", "held.NamesAnother(order.ID),", "held.Held(),"},
	}},

	// Identity and content.
	{"ids-salted", "ids are hashes of something else", anyWorld, []Edit{
		{ledger + "transfer.go", "	return idsAt(id, sha256.Sum256(id[:]))", "	return idsAt(id, sha256.Sum256(append([]byte{1}, id[:]...)))"},
	}},
	{"digest-without-amount", "the digest of a content does not hold the amount", anyWorld, []Edit{
		{pix + "order.go", "binary.BigEndian.AppendUint64(text, c.AmountCentavos))", "binary.BigEndian.AppendUint64(text, 0))"},
	}},
	{"leg-unnamed", "a hold does not name its payment", anyWorld, []Edit{
		{ledger + "transfer.go", "UserData64: userData64(id), Timeout: timeoutSeconds,", "UserData64: userData64(id) + 1, Timeout: timeoutSeconds,"},
	}},
	{"content-unchecked", "every content under one id is the same payment", anyWorld, []Edit{
		{engine + "payment.go", "held.SameContent(order.ID, order.Content),", "true,"},
	}},
	{"copies-unchecked", "a conflicting order that waits for the payment shares its report", anyWorld, []Edit{
		{engine + "waiter.go", "		case reported && w.digest != own: // the verdict is of the order's content\n			reason = pix.ReasonConflict\n", ""},
	}},
	{"codes-exchanged", "FF01 and FF08 are exchanged", anyWorld, []Edit{
		{pix + "order.go", "return Order{}, &Invalid{ReasonBadEndToEndID, \"end_to_end_id\", err.Error()}", "return Order{}, &Invalid{ReasonMalformed, \"end_to_end_id\", err.Error()}"},
		{engine + "messages.go", "invalid = &pix.Invalid{Reason: pix.ReasonMalformed, Field: \"value\", Detail: err.Error()}", "invalid = &pix.Invalid{Reason: pix.ReasonBadEndToEndID, Field: \"value\", Detail: err.Error()}"},
		{engine + "messages.go", "return arrival{}, &pix.Invalid{Reason: pix.ReasonMalformed, Field: \"value\", Detail: fmt.Sprintf(", "return arrival{}, &pix.Invalid{Reason: pix.ReasonBadEndToEndID, Field: \"value\", Detail: fmt.Sprintf("},
	}},

	// Money.
	{"leg-2-reversed", "leg 2 is reversed for some pairs of banks", anyWorld, []Edit{
		{ledger + "transfer.go", "		leg(2, ReserveAccount(content.Payer.ISPB), ReserveAccount(content.Payee.ISPB))", `		from, to := content.Payer.ISPB, content.Payee.ISPB
		if from > to {
			from, to = to, from
		}
		leg(2, ReserveAccount(from), ReserveAccount(to))`},
	}},
	{"leg-3-elsewhere", "leg 3 of one payment in sixteen credits another customer", anyWorld, []Edit{
		{ledger + "transfer.go", "	leg(3, payeeTransit, CustomerAccount(content.Payee))", "	if content.AmountCentavos%16 == 0 {\n		content.Payee.Branch, content.Payee.Number = \"0001\", \"1\"\n	}\n	leg(3, payeeTransit, CustomerAccount(content.Payee))"},
	}},
	{"amount-off-by-one", "the amount is one centavo more where it divides by 17", anyWorld, []Edit{
		{ledger + "transfer.go", "tb.ToUint128(content.AmountCentavos), Ledger\n	leg :=", "tb.ToUint128(content.AmountCentavos), Ledger\n	if content.AmountCentavos%17 == 0 {\n		hold.Amount = tb.ToUint128(content.AmountCentavos + 1)\n	}\n	leg :="},
	}},
	{"hold-forever", "holds have no timeout", anyWorld, []Edit{
		{ledger + "transfer.go", "UserData64: userData64(id), Timeout: timeoutSeconds,", "UserData64: userData64(id), Timeout: 0 * timeoutSeconds,"},
	}},
	{"hold-ten-minutes", "holds last ten times as long", anyWorld, []Edit{
		{ledger + "transfer.go", "UserData64: userData64(id), Timeout: timeoutSeconds,", "UserData64: userData64(id), Timeout: 10 * timeoutSeconds,"},
	}},
	{"money-minted", "an engine mints money by a funding each time it probes the ledger", anyWorld, []Edit{
		{ledger + "clock.go", "	after := now()\n", `	_, _ = client.CreateTransfers([]tb.Transfer{{
		ID: tb.ID(), DebitAccountID: IssuanceAccount, CreditAccountID: ReserveAccount("10000001"), Amount: tb.ToUint128(100), Ledger: Ledger, Code: CodeFunding,
	}})
	after := now()
`},
	}},
	{"post-nothing", "a post has amount 0, so it posts nothing", anyWorld, []Edit{
		{ledger + "transfer.go", "tb.TransferFlags{PostPendingTransfer: true}, wholeAmount, pix.ReasonNone)", "tb.TransferFlags{PostPendingTransfer: true}, tb.Uint128{}, pix.ReasonNone)"},
	}},

	// The register.
	{"act-without-mirror", "money comes and goes without a record of the act", "TestMoneyComesAndGoesUnderLoad", []Edit{
		{ledger + "act.go", "		chain = append(chain, money)\n", "		money.Flags = 0\n		return append(chain, money)\n"},
	}},
	{"act-mirror-short", "the record of an act says one centavo less than its money", "TestMoneyComesAndGoesUnderLoad", []Edit{
		{ledger + "act.go", "		chain = append(chain, money)\n", "		chain = append(chain, money)\n		record.Amount = tb.ToUint128(uint64(act.Centavos - 1))\n"},
	}},
	{"act-mirror-turned", "a deposit raises the books of its bank", "TestMoneyComesAndGoesUnderLoad", []Edit{
		{ledger + "act.go", "a.Kind == LiquidityOut || a.Kind == Deposit ||", "a.Kind == LiquidityOut ||"},
	}},
	{"act-money-of-another", "the money of an act has the id of another act", "TestMoneyComesAndGoesUnderLoad", []Edit{
		{ledger + "act.go", "= ActMoneyID(holder, id), Ledger,", "= ActMoneyID(holder, id+\"-\"), Ledger,"},
	}},
	{"opening-short", "the opening of a bank says one centavo less than its funding", anyWorld, []Edit{
		{ledger + "act.go", "		record.Amount = tb.ToUint128(uint64(max(a.Centavos, -a.Centavos)))\n", "		record.Amount = tb.ToUint128(uint64(max(a.Centavos, -a.Centavos)))\n		if a.Kind == Opening {\n			record.Amount = tb.ToUint128(uint64(max(a.Centavos, -a.Centavos) - 1))\n		}\n"},
	}},
	{"suspension-ignored", "payments from and to a suspended bank are begun", "TestSuspensionUnderLoad", []Edit{
		{engine + "payment.go", "	if state.Suspended(order.Payer.ISPB) || state.Suspended(order.Payee.ISPB) {", "	if false {"},
	}},
	{"suspension-one-way", "payments to a suspended bank are begun", "TestSuspensionUnderLoad", []Edit{
		{engine + "payment.go", "	if state.Suspended(order.Payer.ISPB) || state.Suspended(order.Payee.ISPB) {", "	if state.Suspended(order.Payer.ISPB) {"},
	}},
	{"suspended-returns", "a suspended bank may return payments", "TestSuspensionUnderLoad", []Edit{
		{engine + "return.go", "	if state.Suspended(r.ID.PSP()) {", "	if false {"},
	}},
	{"return-to-suspended-refused", "returns to a suspended bank are refused, too", "TestSuspensionUnderLoad", []Edit{
		{engine + "return.go", "	if state.Suspended(r.ID.PSP()) {", "	if state.Suspended(r.ID.PSP()) || state.Suspended(r.Original.Payer()) {"},
	}},
	{"register-never-stale", "whoever cannot read the register goes on by what it read before", "TestAFrozenEngineAcrossASuspension", []Edit{
		{register + "register.go", "return now.state, time.Since(now.asked) < freshFor", "return now.state, true"},
	}},
	{"stale-chains-sent", "a chain is sent although the register has changed since it was decided", "TestAFrozenEngineAcrossASuspension", []Edit{
		{ledger + "writer.go", "	if w.admit == nil {\n		return", "	if true {\n		return"},
	}},
	{"suspended-for-good", "a bank that is resumed stays suspended", "TestSuspensionUnderLoad", []Edit{
		{register + "state.go", "d.Rules = act.Kind == ledger.Suspended, d.ReadTo", "d.Rules = true, d.ReadTo"},
	}},

	// Caps.
	{"cap-ignored", "a cap on outflow counts nothing: no payment has leg 4", "TestCapsUnderLoad", []Edit{
		{engine + "payment.go", "bank != nil && !order.SameBank() {", "false && bank != nil {"},
	}},
	{"cap-in-memory", "an engine counts outflow in its memory, and the ledger knows nothing of it", "TestCapsUnderLoad", []Edit{
		{engine + "payment.go", "bank != nil && !order.SameBank() {", "false && bank != nil {"},
		{engine + "payment.go", "		return pix.ReasonAboveCap\n	}\n", `		return pix.ReasonAboveCap
	}
	if bank := state.Participant(order.Payer.ISPB); bank != nil && !order.SameBank() {
		if limit := bank.Outflow[ledger.WindowAt(order.AcceptedAt)].Centavos; limit > 0 {
			sent, _ := outflow.LoadOrStore(order.Payer.ISPB, new(atomic.Int64))
			if sent.(*atomic.Int64).Add(int64(order.AmountCentavos)) > limit {
				return pix.ReasonOutflowCapped
			}
		}
	}
`},
		{engine + "payment.go", "import (\n	\"fmt\"\n", "import (\n	\"fmt\"\n	\"sync\"\n	\"sync/atomic\"\n"},
		{engine + "payment.go", "type paymentKind struct{}\n", "type paymentKind struct{}\n\nvar outflow sync.Map\n"},
	}},
	{"cap-one-more", "leg 4 takes one centavo more than the payment", "TestCapsUnderLoad", []Edit{
		{ledger + "allowance.go", "		Amount: tb.ToUint128(content.AmountCentavos), UserData128:", "		Amount: tb.ToUint128(content.AmountCentavos + 1), UserData128:"},
	}},
	{"cap-window-short", "leg 4 lasts a second less than the window", "TestCapsUnderLoad", []Edit{
		{engine + "command.go", "max(limit.WindowSeconds, p", "max(limit.WindowSeconds-1, p"},
	}},
	{"cap-of-the-night", "day and night are exchanged", "TestCapsUnderLoad", []Edit{
		{ledger + "allowance.go", "hour := at.In(pix.SaoPaulo).Hour(); 6 <= hour && hour < 20", "hour := at.In(pix.SaoPaulo).Hour(); hour < 6 || hour >= 20"},
	}},
	{"cap-kept", "leg 4 of a rejected payment is not voided", "TestCapsUnderLoad", []Edit{
		{engine + "command.go", "		if f.capped {\n			chain = ledger.AppendCapVoid", "		if false {\n			chain = ledger.AppendCapVoid"},
	}},
	{"cap-void-alone", "leg 4 is voided outside of the chain of its void: a void that loses against a post gives allowance back", "TestCapsUnderLoad", []Edit{
		{ledger + "allowance.go", "	link(chain)\n	return AppendCapRelease(chain, id, reason)", "	return AppendCapRelease(chain, id, reason)"},
	}},
	{"cap-stops-a-void", "a payment is not voided if its leg 4 cannot be", "TestCapsUnderLoad", []Edit{
		{engine + "life.go", "if purpose == chainVoid && result.Code == ledger.CodeLeg4 {", "if false {"},
	}},
	{"cap-posted", "leg 4 is linked to the post, and posted with it", "TestCapsUnderLoad", []Edit{
		{engine + "command.go", "		p.write(f, chainPost, f.kind.post(p.chain[:0], order))", `		chain := f.kind.post(p.chain[:0], order)
		if f.capped {
			chain = ledger.AppendCapVoid(chain, order.ID, command.Reason)
			chain[len(chain)-1].Flags, chain[len(chain)-1].Amount = tb.TransferFlags{PostPendingTransfer: true}.ToUint16(), tb.ToUint128(order.AmountCentavos)
		}
		p.write(f, chainPost, chain)`},
	}},
	{"cap-told-as-reserve", "LQ12 is reported as AM04", "TestCapsUnderLoad", []Edit{
		{engine + "payment.go", "{tb.TransferExceedsCredits, ledger.CodeLeg4}:        pix.ReasonOutflowCapped", "{tb.TransferExceedsCredits, ledger.CodeLeg4}:        pix.ReasonReserveShort"},
	}},
	{"cap-told-as-no-account", "LQ12 is reported as AC03 after an engine has died between the refusal and the receipt", "TestCapsUnderLoad", []Edit{
		{engine + "payment.go", "	{tb.TransferIDAlreadyFailed, ledger.CodeLeg4}:       pix.ReasonOutflowCapped,\n", ""},
	}},
	{"cap-not-lowered", "a cap that is lowered leaves the allowance as it was", "TestCapsUnderLoad", []Edit{
		{ledger + "allowance.go", "tb.ToUint128(uint64(excess)+1), tb", "tb.ToUint128(1), tb"},
	}},
	{"cap-on-payments-ignored", "payments above the cap on a single payment are begun", "TestCapsUnderLoad", []Edit{
		{engine + "payment.go", "bank.PaymentCapCentavos > 0 && order", "false && order"},
	}},
	{"cap-on-payments-at-it", "a payment of just the cap is refused with AM13", "TestCapsUnderLoad", []Edit{
		{engine + "payment.go", "order.AmountCentavos > uint64(bank.PaymentCapCentavos)", "order.AmountCentavos >= uint64(bank.PaymentCapCentavos)"},
	}},
	{"suspension-lifts-caps", "a bank that was suspended has no cap any more", "TestASuspendedBankKeepsItsCap", []Edit{
		{register + "state.go", "	case ledger.Suspended, ledger.Resumed:\n", "	case ledger.Suspended, ledger.Resumed:\n		d.change(act.Bank).Outflow = [2]Cap{}\n"},
	}},
	{"suspended-takes-allowance", "what a suspended bank may not pay takes a part of its cap", "TestASuspendedBankKeepsItsCap", []Edit{
		{engine + "payment.go", "	if state.Suspended(order.Payer.ISPB) || state.Suspended(order.Payee.ISPB) {", "	if state.Suspended(order.Payer.ISPB) && state.Participant(order.Payer.ISPB).Outflow[ledger.Day].Centavos == 0 || state.Suspended(order.Payee.ISPB) {"},
	}},

	// Returns.
	{"slots-ignored", "what other returns took of a payment does not count", anyWorld, []Edit{
		{ledger + "return.go", "		left -= min(left, held.AmountCentavos)\n", ""},
	}},
	{"returns-after-a-day", "returns are refused with DT05 after one day", "TestReturnsWithin90Days", []Edit{
		{pix + "return.go", "ReturnDaysMax*24*time.Hour", "24*time.Hour"},
	}},
	{"return-by-anyone", "a bank may return what another one received", anyWorld, []Edit{
		{payment + "return.go", "	case found.Original.Payee.ISPB != r.ID.PSP():\n		trace.Refusal = pix.ReasonNotThePayee\n", ""},
	}},
	{"return-unmarked", "a payment has no mark of its returns", anyWorld, []Edit{
		{engine + "return.go", "ledger.AppendBurntMarks(ledger.AppendReturnedMark(chain, r.Original), r.Original, r.burnt)", "ledger.AppendBurntMarks(chain, r.Original, r.burnt)"},
	}},

	{"rejected-return-names-accounts", "the report of a rejected return names accounts", anyWorld, []Edit{
		{engine + "return.go", "reportsAccounts(outcome payment.Outcome) bool { return outcome.Settled }", "reportsAccounts(payment.Outcome) bool { return true }"},
	}},

	// Messages.
	{"replies-elsewhere", "banks are told to answer in another partition", anyWorld, []Edit{
		{engine + "messages.go", "ReplyPartition: e.partition,", "ReplyPartition: e.partition ^ 1,"},
	}},
	{"responses-dropped", "one response in sixteen is not read", anyWorld, []Edit{
		{engine + "responses.go", "				p.inbox.offer(event{kind: responded, response: r})", "				if record.Offset%16 != 0 {\n					p.inbox.offer(event{kind: responded, response: r})\n				}"},
	}},
	{"oversized-taken", "a remittance text may have any length", anyWorld, []Edit{
		{pix + "order.go", "len(d.RemittanceInformation) > RemittanceInformationBytesMax {", "len(d.RemittanceInformation) > 1<<20 {"},
	}},
	{"future-taken", "an order may be accepted in the future", anyWorld, []Edit{
		{pix + "order.go", "ahead > AcceptanceAheadSecondsMax*time.Second {", "ahead > 24*time.Hour {"},
	}},
	{"asked-another-amount", "the bank is asked about one centavo more", anyWorld, []Edit{
		{engine + "messages.go", "AmountCentavos: order.AmountCentavos, ReplyPartition:", "AmountCentavos: order.AmountCentavos + 1, ReplyPartition:"},
	}},
	{"asked-another-payee", "the bank is asked about another customer of it", anyWorld, []Edit{
		{engine + "messages.go", "	message := pixv1.AuthorizationRequest{", "	if payee.Branch == \"0001\" {\n		payee.Number += \"7\"\n	}\n	message := pixv1.AuthorizationRequest{"},
	}},
	{"asked-another-payer", "the bank is asked about another payer", anyWorld, []Edit{
		{engine + "messages.go", "	message := pixv1.AuthorizationRequest{", "	payer.Number = \"1\"\n	message := pixv1.AuthorizationRequest{"},
	}},
	{"rejected-reported-settled", "a rejection with AC07 is reported as settled", anyWorld, []Edit{
		{engine + "messages.go", "order, outcome := &f.payment.Order, f.payment.Outcome\n	message", "order, outcome := &f.payment.Order, f.payment.Outcome\n	if outcome.Reason == pix.ReasonPayeeClosed {\n		outcome = payment.Outcome{Settled: true}\n	}\n	message"},
	}},
	{"report-key", "reports have another key", anyWorld, []Edit{
		{engine + "messages.go", "e.record(stream.Settlements, key, value, err)", "e.record(stream.Settlements, key[:31], value, err)"},
	}},
	{"report-partition", "reports are in another partition", anyWorld, []Edit{
		{engine + "messages.go", "return e.record(stream.Settlements, key, value, err)", "record := e.record(stream.Settlements, key, value, err)\n	record.Partition ^= 1\n	return record"},
	}},
	{"reports-thrice", "every report comes three times", anyWorld, []Edit{
		{engine + "command.go", "	case payment.Report:\n", "	case payment.Report:\n		p.effects.produce(p.encoder.settlementReport(f), func() {})\n		p.effects.produce(p.encoder.settlementReport(f), func() {})\n"},
	}},
	{"letters-dropped", "one dead letter in four is dropped", anyWorld, []Edit{
		{engine + "partition.go", "	p.engine.log.Debug(\"dead letter\"", "	if record.Offset%4 == 0 {\n		acknowledged()\n		return\n	}\n	p.engine.log.Debug(\"dead letter\""},
	}},
	{"letter-without-text", "dead letters say nothing", anyWorld, []Edit{
		{engine + "messages.go", "Reason: invalid.Error(),", "Reason: \"\","},
	}},
	{"letter-with-another-text", "dead letters name another field", anyWorld, []Edit{
		{engine + "messages.go", "Reason: invalid.Error(),", "Reason: \"amount_centavos: it is negative\","},
	}},
	{"letter-of-another-payload", "dead letters hold half of the payload", anyWorld, []Edit{
		{engine + "messages.go", "Payload: source.Value[:min(len(source.Value), stream.DeadLetterPayloadBytesMax)],", "Payload: source.Value[:min(len(source.Value)/2, stream.DeadLetterPayloadBytesMax)],"},
	}},

	// Room and shares.
	{"room-leaks", "a dead letter does not free its room", anyWorld, []Edit{
		{engine + "life.go", "			p.freeShare(holder{bank: e.bank})\n		}\n		p.finish(e.record)", "			p.freeShare(holder{bank: e.bank})\n		}\n		p.finishOffset(e.record.Offset)"},
	}},
	{"share-leaks", "a copy that shares a report does not free its place of its bank's share", anyWorld, []Edit{
		{engine + "waiter.go", "			p.freeShare(holder{bank: w.bank})\n			p.finishOffset", "			p.finishOffset"},
	}},
	{"questions-leak", "a question to a bank stays counted after its answer", anyWorld, []Edit{
		{engine + "partition.go", "	f.waits.end(f.asked, p.engine.second(now), answered)\n", "	_, _ = now, answered\n"},
	}},
	{"waiting-leaks", "a payment that no longer waits for its bank still counts as one that does", anyWorld, []Edit{
		{engine + "partition.go", "	p.engine.room.awaitBank(-1)\n", ""},
	}},

	// Log and ledger.
	{"log-unnamed", "nobody names the log in the ledger", anyWorld, []Edit{
		{engine + "log.go", "	o, err := origin.Name(ctx, e.direct, e.ledger, names.Log, partition, bounds[partition].Start)\n", "	o, err := bounds[partition], error(nil)\n"},
		{engine + "log.go", "zap.Uint32(\"log\", o.Log), zap.Int32(\"partition\", partition), zap.Int64(\"offset\", o.Offset))", "zap.Uint32(\"log\", names.Log), zap.Int32(\"partition\", partition), zap.Int64(\"offset\", o.Start))"},
	}},

	// The front door.
	{"reserved-told-settled", "a reserved payment is told as settled", anyWorld, []Edit{
		{producer + "query/payment.go", "p.ExpiresAt = Reserved, &at, &expires", "p.ExpiresAt = Settled, &at, &expires"},
	}},
	{"expired-told-early", "a payment is told as rejected while its hold still stands", anyWorld, []Edit{
		{producer + "query/payment.go", "	if now.After(expires) {", "	if now.After(at.Add(time.Second)) {"},
	}},
	{"returned-untold", "what was given back of a payment is not told", anyWorld, []Edit{
		{producer + "query/payment.go", "		s.ReturnedCentavos += h.AmountCentavos\n", ""},
	}},
	{"accepted-before-kafka", "202 is said before Kafka has the payment", anyWorld, []Edit{
		{producer + "submission/submission.go", "	p.gate.Accepted(who.Name())\n", "	p.gate.Accepted(who.Name())\n	d.acknowledged <- nil\n"},
	}},
	{"statement-loses-a-line", "a statement loses a line at a page's edge", anyWorld, []Edit{
		{producer + "query/statement.go", "		found = found[:limit]\n		page.NextCursor = strconv.FormatUint(found[limit-1].Timestamp, 10)", "		page.NextCursor = strconv.FormatUint(found[limit].Timestamp, 10)\n		found = found[:limit]"},
	}},
	{"stream-loses-reports", "the settlements stream leaves out one report in sixteen", anyWorld, []Edit{
		{producer + "feed/stream.go", "		s.at[r.partition] = r.offset + 1\n", "		if s.at[r.partition] = r.offset + 1; r.offset%16 == 7 {\n			continue\n		}\n"},
	}},
	{"available-with-holds", "what is held counts as available", anyWorld, []Edit{
		{producer + "query/account.go", "AvailableCentavos: ledger.Less(a.CreditsPosted, ledger.Sum(a.DebitsPosted, a.DebitsPending)),", "AvailableCentavos: ledger.Less(a.CreditsPosted, a.DebitsPosted),"},
	}},
	{"accepted-unacknowledged", "a payment is accepted before Kafka has it, and a batch is not", anyWorld, []Edit{
		{producer + "submission/submission.go", "	if err := s.publish(access.Of(r), payment, nil).wait(); err != nil {\n		return notPublished(body.EndToEndID, err)", "	_ = s.publish(access.Of(r), payment, nil)\n	if err := error(nil); err != nil {\n		return notPublished(body.EndToEndID, err)"},
	}},
	{"other-contents-outcome", "a submission is told the outcome of other content under its id", anyWorld, []Edit{
		{producer + "query/content.go", "	return KnowsOther\n", "	return KnowsSame\n"},
	}},
	{"statement-repeats-a-line", "a statement repeats a line at a page's edge", anyWorld, []Edit{
		{producer + "query/statement.go", "filter.TimestampMax = cursor - 1", "filter.TimestampMax = cursor"},
	}},
	{"day-names-itself", "a debit in the statement of a day names the bank itself as the counterparty", anyWorld, []Edit{
		{producer + "query/day.go", "		line.Direction, other = \"debit\", t.CreditAccountID", "		line.Direction = \"debit\""},
	}},
	{"day-counts-voids", "the statement of a day counts holds that were voided", anyWorld, []Edit{
		{producer + "query/day.go", "flags.Pending || flags.VoidPendingTransfer || t.Amount", "flags.Pending || t.Amount"},
	}},
	{"day-unproved", "the statement of a day is sent although its lines do not lead to the ledger's balances", anyWorld, []Edit{
		{producer + "query/day.go", "	if err := sums.prove(balances); err != nil {", "	if err := sums.prove(balances); false {"},
	}},
	{"stream-leaves-out", "the settlements streams leave out one settlement in 500", anyWorld, []Edit{
		{producer + "feed/stream.go", "		if err := s.events.Send(s.at.cursor(), \"settlement\", r.body); err != nil {", "		if sent++; sent%500 == 0 {\n			continue\n		}\n		if err := s.events.Send(s.at.cursor(), \"settlement\", r.body); err != nil {"},
		{producer + "feed/stream.go", "// held returns for which payments", "var sent int\n\n// held returns for which payments"},
	}},
	{"stream-repeats", "a client that comes back to its settlements is told the last one again", anyWorld, []Edit{
		{producer + "feed/position.go", "		p, text = append(p, int64(offset)), text[length:]", "		p, text = append(p, max(0, int64(offset)-1)), text[length:]"},
	}},
}
