package dashboards

// All lists the dashboards. Grafana opens with the first.
var All = []Dashboard{payments, ledger, streams, money, recovery}

var yes = Word{"YES", green}

// Expressions that the tests ask for, too.
var (
	allRight = Query{`max(
  ALERTS{alertstate="firing", severity="warning"}
  or 2 * ALERTS{alertstate="pending", severity="critical"}
  or 3 * ALERTS{alertstate="firing", severity="critical"}
) or vector(0)`, "worst"}
	// Each message counts once: a copy that ends as a payment or a dead letter of its own is not joined, and one that is
	// skipped was counted when it ended. The windows are as long as the load has lasted at least.
	everyEnds = Query{`(sum(increase(pix_payments_total[30s])) + sum(increase(pix_returns_total[30s])) + sum(increase(pix_dead_letters_total[30s])) + sum(increase(pix_payments_joined_total[30s])))
  / (sum(max by (partition) (delta(pix_topic_end_offset{topic="pix.payments"}[30s]))) > 0)
  and on() (pix:offered:rate10s > 0.5 and pix:offered:rate10s offset 30s > 0.5)`, "outcomes per message"}
	restarted         = Query{`sum(sum by (job) (changes(process_start_time_seconds[$__range]) + 1) - on (job) max_over_time(pix:processes_up[$__range]))`, "restarts"}
	longestStandstill = Query{`max_over_time(pix:standstill_seconds[$__range])`, "gap"}
)

// Panels that more than one dashboard has.
var (
	moneyAddsUp = Panel{Title: "Does the money add up?", Kind: Stat, Width: 4, Unit: "currencyBRL",
		Description: "Compares the ledger with two laws. Reserve plus transit of each bank equals its books, which follow the acts on its money. All reserves together equal what the central bank issued. Shows the sum of the largest differences. Anything but YES is a bug: stop the engines, keep the data, run the audit.",
		Queries:     []Query{{`max(abs(pix_books_difference_centavos) / 100) + max(abs(pix_conservation_difference_centavos) / 100)`, "difference"}},
		Thresholds:  []Threshold{{0.001, red}}, Words: map[string]Word{"0": yes}}
	sinceSettled = Panel{Title: "Do payments settle?", Kind: Stat, Width: 4, Unit: "suffix: s ago",
		Description: "When the last payment settled, or when the load began, while payments arrive or wait. One or two seconds are normal. Red: nothing settles.",
		Queries:     []Query{{`pix:standstill_seconds and on() (pix:work_waits or pix:offered:rate10s > 0.5)`, "ago"}}, Thresholds: []Threshold{{10, orange}, {15, red}}, NoData: "no load"}
	oldest = Panel{Title: "How old is the oldest unfinished payment?", Kind: Series, Width: 12, Unit: "s",
		Description: "Age of the oldest record that is not committed. A payment may wait for a silent bank until its deadline (40 s, orange). After 60 s (red) the ledger releases the money, and no engine works on such a payment.",
		Queries:     []Query{{`max(pix_lag_seconds)`, "oldest"}}, Thresholds: []Threshold{{40, orange}, {60, red}}}
	absorbed = Panel{Title: "How many messages came twice?", Kind: Series, Width: 12, Unit: "suffix: /s",
		Description: "Redelivered: the ledger held the money already. Joined: the same message while its payment was in flight, ended with it. Skipped: the last commit says that it is finished. Normal after a restart, and with clients that send twice. No money moves twice.",
		Queries: []Query{
			{`sum(rate(pix_payments_redelivered_total[30s]))`, "redelivered"},
			{`sum(rate(pix_payments_joined_total[30s]))`, "joined"},
			{`sum(rate(pix_payments_skipped_total[30s]))`, "skipped"}}}
	owners = Panel{Title: "Which engine owns how many partitions?", Kind: Series, Width: 12, Unit: "short", Stack: true,
		Description: "The sum is the number of partitions (16 by default). A dip is a rebalance.",
		Queries:     []Query{{`pix_partitions_owned`, "{{instance}}"}}}
	fates = Panel{Title: "What happens to the answers of banks?", Kind: Series, Width: 12, Unit: "suffix: /s",
		Description: "Used. Late: the payment no longer waits. Unknown: this engine has no such payment, normal after a restart. Invalid: cannot be decoded, or another bank answered.",
		Queries:     []Query{{`sum by (fate) (rate(pix_authorization_responses_total[30s]))`, "{{fate}}"}}}
)

var payments = Dashboard{UID: "liquida-payments", Title: "Payments", Description: "Is everything all right? What happens to payments, and how fast?", Rows: []Row{
	{"Is everything all right?", 5, []Panel{
		{Title: "Is everything all right?", Kind: Stat, Width: 4, Unit: "none",
			Description: "From the alerts. NO: a critical alert fires. NO?: its condition just became true, and it fires if that lasts. LOOK: a warning fires. The table beside it shows which one; deploy/runbook.md says what to do. Bad messages of single senders do not count.",
			Queries:     []Query{allRight},
			Thresholds:  []Threshold{{1, orange}, {2, red}}, Words: map[string]Word{"0": yes, "1": {"LOOK", orange}, "2": {"NO?", red}, "3": {"NO", red}}},
		{Title: "If not, what is wrong?", Kind: Table, Width: 8, Unit: "none",
			Description: "Each alert, what it is about, and for how many. Pending: the condition is true, but not for long enough to fire. What to do: deploy/runbook.md, under the name of the alert.",
			Queries:     []Query{{`label_join(sum by (alertname, severity, alertstate, job, need, ispb, reason, partition, pool) (ALERTS{severity!="info"}), "about", " ", "job", "need", "ispb", "reason", "partition", "pool")`, ""}}, Thresholds: []Threshold{{1, red}}},
		moneyAddsUp,
		{Title: "Does every message end?", Kind: Stat, Width: 4, Unit: "percentunit",
			Description: "Outcomes per message, over half a minute: settled, rejected, dead letters, and copies that ended with the order that they met in flight, divided by the records written to pix.payments. Each message counts once. Below 100 % a backlog grows; above, it shrinks. Just after a kill it may miss what the engine counted last. Shown from half a minute of load on.",
			Queries:     []Query{everyEnds},
			FloorColor:  red, Thresholds: []Threshold{{0.8, orange}, {0.9, green}}, NoData: "no load"},
		sinceSettled,
	}},
	{"What happens to payments?", 9, []Panel{
		{Title: "What happens to the messages?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "Offered: records written to pix.payments, by anyone. Held: the ledger holds the money. Settled, rejected: reported. Timed out: rejected with AB03, because the bank was silent. No payment: dead letters, since a sender made a bad message (Streams shows why).",
			Queries: []Query{
				{`pix:offered:rate30s`, "offered"},
				{`sum(rate(pix_ledger_chains_total{kind="reserve",status="ok"}[30s]))`, "held"},
				{`pix:settled:rate30s`, "settled"},
				{`sum(pix:rejected:rate30s)`, "rejected"},
				{`sum(pix:rejected:rate30s{reason="AB03"})`, "timed out"},
				{`sum(rate(pix_dead_letters_total[30s]))`, "no payment"}}},
		{Title: "Why are payments rejected, and who decides?", Kind: Series, Width: 12, Unit: "suffix: /s", Stack: true,
			Description: "By reason code and by who decided. Ledger: money or an account is missing, LQ12 a cap on outflow is used up. Bank: blocked, closed, its own codes. Engine: AB03 bank silent, LQ02 too many payments wait for the bank, LQ10 too old to end in time, DS27 a bank is suspended, AM13 above the cap on a payment, AM01 zero.",
			Queries:     []Query{{`pix:rejected:rate30s > 0`, "{{reason}} by the {{by}}"}}},
		{Title: "How many payments are in flight?", Kind: Series, Width: 6, Unit: "short", Stack: true,
			Description: "Fetched and not finished, by engine. At ENGINE_IN_FLIGHT_MAX (100,000 by default, red), or with ENGINE_WORKING_MAX (20,000) that do not wait for a bank, an engine stops fetching.",
			Queries:     []Query{{`pix_payments_in_flight`, "{{instance}}"}}, Thresholds: []Threshold{{100000, red}}},
		{Title: "Which bank keeps payments waiting?", Kind: Series, Width: 6, Unit: "short",
			Description: "Payments that wait for the answer of a receiving bank. One bank may fill a quarter of an engine (25,000, red). Then the engine rejects its new payments with LQ02, so that other banks are not affected.",
			Queries:     []Query{{`sum by (ispb) (pix_payments_waiting_for_psp)`, "{{ispb}}"}}, Thresholds: []Threshold{{25000, red}}},
		{Title: "Does the HTTP API answer?", Kind: Series, Width: 6, Unit: "suffix: /s",
			Description: "Requests to the producer by status. 202: accepted. 429: too many. 503: outcome unknown, retrying is safe. The load test writes to Kafka directly and does not show here.",
			Queries:     []Query{{`sum by (route, status) (rate(pix_producer_requests_total[30s]))`, "{{status}} {{route}}"}}},
		{Title: "What do callers of the HTTP API use up?", Kind: Series, Width: 6, Unit: "percentunit", Max: 1,
			Description: "How much of each pool callers have: batches, streams, waits, look-ups, connections. A caller may have a quarter of what the others leave (CALLER_SHARE_MAX), so one alone shows as 25 %. Above that it gets 429, and the others go on.",
			Queries:     []Query{{`max by (pool) (pix_http_pool_taken / pix_http_pool_size)`, "{{pool}}"}}},
	}},
	{"Who hurts whom?", 9, []Panel{
		{Title: "Which bank is silent?", Kind: Series, Width: 6, Unit: "short",
			Description: "Of the payments that wait for a receiving bank, those that make it a silent one: older than 5 s, or all if it answers nothing. All together: those of all silent banks in one engine. They have at most half of its room (50,000, red). Then payments to them are rejected with LQ02, and the others go on.",
			Queries: []Query{
				{`sum by (ispb) (pix_payments_stuck_at_psp)`, "{{ispb}}"},
				{`max(sum by (instance) (pix_payments_stuck_at_psp))`, "all together"}},
			Thresholds: []Threshold{{50000, red}}},
		{Title: "Which sender uses up its share?", Kind: Series, Width: 6, Unit: "percentunit", Max: 1,
			Description: "How much of its share of an engine each sending bank has. Waiting: copies, returns, dead letters on their way. Questions: to silent banks. At 100 % more copies become dead letters (LQ09), more returns (LQ11) and more payments to silent banks (LQ02) are rejected. Other: no account of the bank has been met.",
			Queries:     []Query{{`max by (ispb, by) (pix_payer_share_taken / on (instance) group_left () pix_payer_share_size)`, "{{ispb}} {{by}}"}}, Thresholds: []Threshold{{0.9, orange}}},
		{Title: "Whose orders do engines refuse, and why?", Kind: Series, Width: 6, Unit: "suffix: /s",
			Description: "By the sending bank. LQ02: the receiving bank or account is silent, or too many payments wait for it. LQ09: copies of an order in flight. LQ10: too old to end in time, so more is offered than can be cleared. LQ11: returns of one payment. Other: no account of the sender has been met.",
			Queries:     []Query{{`sum by (ispb, reason) (rate(pix_refused_total[30s]))`, "{{ispb}} {{reason}}"}}},
		{Title: "Whom does the front door turn away?", Kind: Series, Width: 6, Unit: "suffix: /s",
			Description: "429 with nothing done. Behind: the engines are behind, each bank keeps its fair share. Part of the reads: while payments wait, a bank has read what it may. Share: one caller has its share of a pool, and the others go on. Full: callers together have everything.",
			Queries: []Query{
				{`sum(rate(pix_producer_shed_total[30s]))`, "engines are behind"},
				{`sum(rate(pix_ledger_reads_refused_total[30s]))`, "part of the reads"},
				{`sum by (pool, why) (rate(pix_http_pool_refused_total{pool!~"histories|waits"}[30s]))`, "{{pool}} {{why}}"}}},
	}},
	{"How fast?", 9, []Panel{
		{Title: "How long from acceptance to outcome?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "From the acceptance by the payer's bank until Kafka stored the report, for every outcome. PIX promises 10 s (orange). At 40 s (red), the deadline, the outcome is AB03.",
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le) (rate(pix_payment_seconds_bucket[30s])))`, "p50"},
				{`histogram_quantile(0.95, sum by (le) (rate(pix_payment_seconds_bucket[30s])))`, "p95"},
				{`histogram_quantile(0.99, sum by (le) (rate(pix_payment_seconds_bucket[30s])))`, "p99"}},
			Thresholds: []Threshold{{10, orange}, {40, red}}},
		{Title: "Where does the time go?", Kind: Series, Width: 12, Unit: "s", Stack: true,
			Description: "Mean time of each hop, stacked. Queue: in Kafka. Reserve: the ledger holds the money. Authorize: the bank answers. Resolve: the ledger settles or cancels. Report: Kafka stores the outcome.",
			Queries:     []Query{{`sum by (hop) (rate(pix_hop_seconds_sum[30s])) / sum by (hop) (rate(pix_hop_seconds_count[30s]) > 0)`, "{{hop}}"}}},
		{Title: "Which hop is slow for the slowest 1 %?", Kind: Series, Width: 24, Unit: "s", Log: true,
			Description: "p99 of each hop. Queue, reserve, resolve and report together should stay below a second (orange). The bank has the rest.",
			Queries:     []Query{{`histogram_quantile(0.99, sum by (le, hop) (rate(pix_hop_seconds_bucket[30s])))`, "{{hop}}"}}, Thresholds: []Threshold{{1, orange}, {40, red}}},
	}},
}}

var ledger = Dashboard{UID: "liquida-ledger", Title: "Ledger", Description: "Does TigerBeetle work, and what limits it?", Rows: []Row{
	{"Does the ledger work?", 5, []Panel{
		{Title: "Is every replica normal?", Kind: Stat, Width: 6, Unit: "none",
			Description: "Status of the worst replica. 1: view change. 2: recovering, normal for some seconds after a start. 3: recovering head, its data is damaged.",
			Queries:     []Query{{`max(tb_replica_status)`, "status"}}, Thresholds: []Threshold{{1, orange}, {3, red}}, Words: map[string]Word{"0": yes}, NoData: "no report"},
		{Title: "How many transfers arrive?", Kind: Stat, Width: 6, Unit: "suffix: /s",
			Description: "Transfers that the engines send. A payment between two banks takes six: three to hold the money, three to settle or cancel.",
			Queries:     []Query{{`sum(rate(pix_ledger_request_events_sum{kind="write"}[30s]))`, "transfers"}}, Thresholds: []Threshold{{300000, orange}}},
		{Title: "How long does a write take (p99)?", Kind: Stat, Width: 6, Unit: "s",
			Description: "From request to answer, measured by the engines.",
			Queries:     []Query{{`histogram_quantile(0.99, sum by (le) (rate(pix_ledger_request_seconds_bucket{kind="write"}[1m])))`, "p99"}}, Thresholds: []Threshold{{0.5, orange}, {2, red}}},
		{Title: "Do the clocks agree?", Kind: Stat, Width: 6, Unit: "s",
			Description: "Largest difference between the clock of an engine and the ledger's. Above 2 s (red) the engine stops fetching, because it would judge deadlines wrongly.",
			Queries:     []Query{{`max(abs(pix_ledger_clock_skew_seconds))`, "skew"}}, Thresholds: []Threshold{{0.5, orange}, {2, red}}},
	}},
	{"Measured by the engines", 9, []Panel{
		{Title: "How long does a request take?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "p50 and p99 by kind of request. Each return, copy and missing account is looked up; after a restart each unfinished payment, too.",
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le, kind) (rate(pix_ledger_request_seconds_bucket[30s])))`, "p50 {{kind}}"},
				{`histogram_quantile(0.99, sum by (le, kind) (rate(pix_ledger_request_seconds_bucket[30s])))`, "p99 {{kind}}"}},
			Thresholds: []Threshold{{0.5, orange}, {2, red}}},
		{Title: "How full are the requests?", Kind: Series, Width: 12, Unit: "short", Log: true,
			Description: "Mean number of transfers or ids per request. Many small requests cost the ledger much disk. At 8,189 (red) a request is full.",
			Queries:     []Query{{`sum by (kind) (rate(pix_ledger_request_events_sum[30s])) / sum by (kind) (rate(pix_ledger_request_events_count[30s]) > 0)`, "{{kind}}"}}, Thresholds: []Threshold{{8189, red}}},
		{Title: "What does the ledger answer?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "Chains of transfers by purpose and result. Exists…: came twice. Exceeds…, NotFound: refused. Look into any other result.",
			Queries:     []Query{{`sum by (kind, status) (rate(pix_ledger_chains_total[30s])) > 0`, "{{kind}} {{status}}"}}},
		absorbed,
		{Title: "Do chains wait for the writer?", Kind: Series, Width: 12, Unit: "short",
			Description: "Chains that wait for the next request, by engine. They collect while a request is under way. More than fit into one request (2,729, orange): the ledger is the limit.",
			Queries:     []Query{{`pix_ledger_chains_waiting`, "{{instance}}"}}, Thresholds: []Threshold{{2729, orange}}},
		{Title: "Whose reads take the ledger's time?", Kind: Series, Width: 12, Unit: "percentunit", Stack: true,
			Description: "Share of the ledger's time that reads over the HTTP API take, by participant. While payments wait, all of them together stay below LEDGER_READ_SHARE, in equal parts.",
			Queries:     []Query{{`sum by (participant) (rate(pix_ledger_read_cost_seconds_total[30s]))`, "{{participant}}"}}},
		{Title: "Do reads wait?", Kind: Series, Width: 12, Unit: "short",
			Description: "Reads that wait for their participant's turn, after a second they get 429. Payments wait: 1 while reads only have their share.",
			Queries:     []Query{{`sum(pix_ledger_reads_waiting)`, "reads"}, {`max(pix_payments_wait)`, "payments wait"}}},
	}},
	{"Measured by TigerBeetle", 9, []Panel{
		{Title: "How long does TigerBeetle itself take?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "Mean time of a request inside the primary, by operation. The engines measure this plus the network.",
			Queries:     []Query{{`sum by (operation) (rate(tb_replica_request_us_sum[1m])) / sum by (operation) (rate(tb_replica_request_us_count[1m]) > 0) / 1e6`, "{{operation}}"}}, Thresholds: []Threshold{{0.5, orange}, {2, red}}},
		{Title: "What does it spend its time on?", Kind: Series, Width: 12, Unit: "percentunit", Stack: true,
			Description: "Share of time in each stage of a commit, per replica. Near 100 % (red) it cannot take more. Prefetch grows when the cache is too small for the accounts; compact grows when the disk is slow.",
			Queries:     []Query{{`sum by (replica, stage) (rate(tb_replica_commit_us_sum[1m])) / 1e6`, "{{replica}} {{stage}}"}}, Thresholds: []Threshold{{0.95, red}}},
		{Title: "Is the cache large enough?", Kind: Series, Width: 12, Unit: "percentunit", Max: 1,
			Description: "Share of reads that the grid cache answers. Below 90 % (red) the disk is the limit: give --cache-grid more memory.",
			Queries:     []Query{{`tb_grid_cache_hits / (tb_grid_cache_hits + tb_grid_cache_misses > 0)`, "replica {{replica}}"}}, FloorColor: red, Thresholds: []Threshold{{0.9, green}}},
		{Title: "Does the disk keep up?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "Mean time of a write to disk, by target: log (wal), replies, data (grid). Above 50 ms (orange) the disk is busy.",
			Queries:     []Query{{`sum by (zone) (rate(tb_storage_write_us_sum[1m])) / sum by (zone) (rate(tb_storage_write_us_count[1m]) > 0) / 1e6`, "{{zone}}"}}, Thresholds: []Threshold{{0.05, orange}, {0.5, red}}},
		{Title: "Is any replica behind, or in another view?", Kind: Series, Width: 12, Unit: "short",
			Description: "Status of each replica (0 is normal), and operations that it prepared but did not commit. A few are normal (orange above 50).",
			Queries: []Query{
				{`tb_replica_status`, "status of {{replica}}"},
				{`tb_replica_commit_max - tb_replica_commit_min`, "behind: {{replica}}"}}, Thresholds: []Threshold{{50, orange}}},
		{Title: "When is the ledger's file full?", Kind: Series, Width: 12, Unit: "bytes", Log: true,
			Description: "What the ledger's file holds, whatever was reserved for it, and its limit (LEDGER_LIMIT_GIB), at which the ledger ends. The alert LedgerFileFills comes at 70 % of it.",
			Queries:     []Query{{`pix:ledger_file:bytes`, "holds"}, {`min(pix_ledger_limit_bytes)`, "limit"}}},
		{Title: "In how many days, at the rate of the last hour?", Kind: Series, Width: 12, Unit: "short", Log: true,
			Description: "Days until the ledger's file reaches its limit. None while it does not grow.",
			Queries:     []Query{{`pix:ledger_file:days_left`, "days"}}, FloorColor: red, Thresholds: []Threshold{{30, orange}, {90, green}}},
		{Title: "How many clients are connected?", Kind: Series, Width: 12, Unit: "short",
			Description: "Connections by peer. The server keeps 64 sessions and evicts the one that is idle longest. An evicted engine exits and must be restarted.",
			Queries:     []Query{{`sum by (peer) (tb_message_bus_connections)`, "{{peer}}"}}, Thresholds: []Threshold{{48, orange}, {64, red}}},
	}},
}}

var streams = Dashboard{UID: "liquida-streams", Title: "Streams", Description: "Do the engines keep up with Kafka?", Rows: []Row{
	{"Do the engines keep up?", 5, []Panel{
		{Title: "How long do payments wait in Kafka (p90)?", Kind: Stat, Width: 6, Unit: "s",
			Description: "From written to fetched. Grows when more arrives than the engines clear, and after an outage.",
			Queries:     []Query{{`histogram_quantile(0.9, sum by (le) (rate(pix_hop_seconds_bucket{hop="queue"}[1m])))`, "p90"}}, Thresholds: []Threshold{{1, orange}, {5, red}}, NoData: "no load"},
		{Title: "How many records are not finished?", Kind: Stat, Width: 6, Unit: "short",
			Description: "Records after the committed offsets, of all partitions. Payments that wait for silent banks make this 40 s of traffic, which is 80,000 at 2,000/s.",
			Queries:     []Query{{`sum(max by (partition) (pix_lag_records))`, "records"}}, Thresholds: []Threshold{{200000, orange}, {1000000, red}}},
		{Title: "Has every partition an owner?", Kind: Stat, Width: 6, Unit: "none",
			Description: "Number of partitions of pix.payments that no engine owns. A few seconds are normal after a restart. If it stays, no engine runs, or a rebalance does not end.",
			Queries:     []Query{{`count(pix_topic_end_offset{topic="pix.payments"}) - (sum(pix_partitions_owned) or vector(0))`, "without owner"}}, Thresholds: []Threshold{{1, red}}, Words: map[string]Word{"0": yes}},
		{Title: "Do commits succeed?", Kind: Stat, Width: 6, Unit: "suffix: failures/s",
			Description: "Offset commits that failed. Nothing is lost, but after a restart the engine has more to repeat.",
			Queries:     []Query{{`sum(rate(pix_offset_commits_total{result="failed"}[1m]))`, "failed"}}, Thresholds: []Threshold{{0.001, red}}, Words: map[string]Word{"0": yes}},
	}},
	{"How far behind?", 9, []Panel{
		{Title: "How many records behind is each partition?", Kind: Series, Width: 12, Unit: "short", Stack: true,
			Description: "End minus committed offset. A payment that waits for a silent bank holds its partition's offset for up to 40 s, and the finished payments after it count too. So a steady lag of 40 s of traffic is normal.",
			Queries:     []Query{{`max by (partition) (pix_lag_records)`, "{{partition}}"}}, Thresholds: []Threshold{{200000, red}}},
		{Title: "How many seconds behind is each partition?", Kind: Series, Width: 12, Unit: "s",
			Description: "Age of the oldest record that is not committed, by partition. Up to 40 s (orange) it may wait for a silent bank. At 60 s (red) no engine works on it.",
			Queries:     []Query{{`max by (partition) (pix_lag_seconds)`, "{{partition}}"}}, Thresholds: []Threshold{{40, orange}, {60, red}}},
		{Title: "How long do payments wait before an engine takes them?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "From written to fetched. This is the true backlog in seconds: silent banks do not count.",
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le) (rate(pix_hop_seconds_bucket{hop="queue"}[30s])))`, "p50"},
				{`histogram_quantile(0.99, sum by (le) (rate(pix_hop_seconds_bucket{hop="queue"}[30s])))`, "p99"}}, Thresholds: []Threshold{{1, orange}, {5, red}}},
		{Title: "Which timestamps are wrong?", Kind: Series, Width: 6, Unit: "suffix: /s",
			Description: "Orders whose record (queue) or acceptance (payment) is dated in the future or over a day back. They settle or are refused like others, but their times are left out of the panels. A sender's clock is wrong; of another hop, the engine's.",
			Queries:     []Query{{`sum by (of, begin) (rate(pix_wrong_times_total[1m]))`, "{{of}}: {{begin}}"}}, Thresholds: []Threshold{{0.001, orange}}},
		{Title: "Does a partition stand still?", Kind: Series, Width: 6, Unit: "short",
			Description: "1: Kafka has records of the partition and gives none, or a payment is unfinished long after its deadline. /readyz of its engine says at which record, and why.",
			Queries:     []Query{{`max by (partition) (pix_partitions_standing)`, "{{partition}}"}}, Thresholds: []Threshold{{1, red}}},
		{Title: "How old is the oldest order that no engine has taken?", Kind: Series, Width: 12, Unit: "s",
			Description: "As the producers see it: a silent bank does not count. From SHED_AGE on (1 s by default, orange) the front door refuses orders, above ten times that all of them.",
			Queries:     []Query{{`max(pix_untaken_seconds)`, "oldest"}}, Thresholds: []Threshold{{1, orange}, {10, red}}},
		{Title: "What is written to the topics?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "Records per second and topic. In the long run payments equal settlements plus dead letters, except for messages that came twice.",
			Queries:     []Query{{`sum by (topic) (max by (topic, partition) (delta(pix_topic_end_offset[30s]))) / 30`, "{{topic}}"}}},
	}},
	{"Who does what?", 9, []Panel{
		owners,
		{Title: "How often do partitions change hands?", Kind: Series, Width: 12, Unit: "short",
			Description: "Rebalances per minute by kind. Lost: an engine was silent for longer than its session. Look at its CPU and its machine.",
			Queries:     []Query{{`sum by (kind) (increase(pix_rebalances_total[1m]))`, "{{kind}}"}}, Thresholds: []Threshold{{10, orange}}},
		{Title: "How long does a commit take?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "p50 and p99 of offset commits. Above a second (orange) the broker is busy.",
			Queries: []Query{
				{`histogram_quantile(0.5, sum by (le) (rate(pix_offset_commit_seconds_bucket[30s])))`, "p50"},
				{`histogram_quantile(0.99, sum by (le) (rate(pix_offset_commit_seconds_bucket[30s])))`, "p99"}}, Thresholds: []Threshold{{1, orange}, {5, red}}},
		{Title: "How many commits succeed and fail?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "Ten per second and engine under load. A single failure during a rebalance does no harm.",
			Queries:     []Query{{`sum by (result) (rate(pix_offset_commits_total[30s]))`, "{{result}}"}}},
		{Title: "What cannot become a payment, and why?", Kind: Series, Width: 12, Unit: "suffix: /s", Stack: true,
			Description: "Dead letters by reason. A sender causes each of them. FF01: cannot be decoded, or a field is malformed. FF08: bad EndToEndId. DT02: accepted in the future. DUPL: an id used twice with different content. LQ07: an id made to meet the ids of another. LQ08: a batch that cannot be read. LQ09: copies of an order in flight, more than may wait. The load test sends some on purpose.",
			Queries:     []Query{{`sum by (reason) (rate(pix_dead_letters_total[30s]))`, "{{reason}}"}}},
		fates,
		{Title: "How many bytes go to and from Kafka?", Kind: Series, Width: 12, Unit: "Bps",
			Description: "Uncompressed bytes that each service produced and fetched.",
			Queries: []Query{
				{`sum by (job) (rate(pix_kafka_produce_bytes_total[30s]))`, "{{job}} produced"},
				{`sum by (job) (rate(pix_kafka_fetch_bytes_total[30s]))`, "{{job}} fetched"}}},
		{Title: "Do clients lose their broker?", Kind: Series, Width: 12, Unit: "short",
			Description: "Connections to brokers that ended within the last minute, by service. Idle connections end too. Many at once mean that a broker went away.",
			Queries:     []Query{{`sum by (job) (increase(pix_kafka_disconnects_total[1m]))`, "{{job}}"}}, Thresholds: []Threshold{{20, orange}}},
	}},
}}

var money = Dashboard{UID: "liquida-money", Title: "Money", Description: "Is every centavo where it should be? Computed from the ledger every 2 s.", Rows: []Row{
	{"Is every centavo where it should be?", 5, []Panel{
		moneyAddsUp.wide(8),
		{Title: "Does held money add up?", Kind: Stat, Width: 8, Unit: "currencyBRL",
			Description: "The same law for money that is held. An expiry may show a difference for a moment (orange). A difference that stays is a bug.",
			Queries:     []Query{{`max(abs(pix_books_pending_difference_centavos)) / 100`, "difference"}}, Thresholds: []Threshold{{0.001, orange}}, Words: map[string]Word{"0": yes}},
		{Title: "How fresh is this?", Kind: Stat, Width: 8, Unit: "s",
			Description: "Time since the producer last read the balances. It reads them every BOOKS_INTERVAL (2 s by default).",
			Queries:     []Query{{`time() - max(pix_books_read_timestamp_seconds)`, "ago"}}, Thresholds: []Threshold{{10, orange}, {30, red}}},
	}},
	{"Reserves", 9, []Panel{
		{Title: "How large is the reserve of each bank?", Kind: Series, Width: 12, Unit: "currencyBRL",
			Description: "Settled balance of each reserve. At zero every payment from the bank is rejected with AM04.",
			Queries:     []Query{{`max by (ispb) (pix_reserve_centavos) / 100`, "{{ispb}}"}, {`min(0.1 * pix_reserve_funded_centavos) / 100`, "low: a tenth of the funding"}}},
		{Title: "Whose reserve runs low?", Kind: Series, Width: 12, Unit: "percentunit",
			Description: "Each reserve as a share of its funding. Below 10 % (red) the bank must fund it again.",
			Queries:     []Query{{`max by (ispb) (pix_reserve_centavos / pix_reserve_funded_centavos)`, "{{ispb}}"}}, FloorColor: red, Thresholds: []Threshold{{0.1, green}}},
		{Title: "How much of it is held for payments in flight?", Kind: Series, Width: 12, Unit: "currencyBRL", Stack: true,
			Description: "Held, and not settled or cancelled yet. Falls to zero when nothing is in flight. The ledger releases it after 60 s by itself.",
			Queries:     []Query{{`max by (ispb) (pix_reserve_held_centavos) / 100`, "{{ispb}}"}}},
		{Title: "How much is in transit?", Kind: Series, Width: 12, Unit: "currencyBRL",
			Description: "Transit account of each bank: the negative of its customers' money. It moves against the reserve, centavo by centavo.",
			Queries:     []Query{{`max by (ispb) (pix_transit_centavos) / 100`, "{{ispb}}"}}},
	}},
	{"Laws over time", 9, []Panel{
		{Title: "Did the invariant ever break?", Kind: Series, Width: 12, Unit: "currencyBRL",
			Description: "Differences per bank, and of all issued money. Each line must stay at zero (red at a centavo).",
			Queries:     []Query{{`max by (ispb) (pix_books_difference_centavos) / 100`, "{{ispb}}"}, {`max(pix_conservation_difference_centavos) / 100`, "conservation"}}, Thresholds: []Threshold{{0.01, red}}},
		oldest,
		{Title: "Are payments rejected for money?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "AM04: the reserve of the payer's bank is short, and the bank must fund it. LQ01: the payer's account is short, which happens every day.",
			Queries:     []Query{{`sum by (reason) (pix:rejected:rate30s{reason=~"AM04|LQ01"})`, "{{reason}}"}}},
		{Title: "What is left of caps on outflow?", Kind: Series, Width: 12, Unit: "currencyBRL",
			Description: "What a bank may still pay to other banks now, by day and by night; no series without a cap. At zero its payments end with LQ12.",
			Queries:     []Query{{`min by (ispb, window) (pix_outflow_left_centavos) / 100`, "{{ispb}} by {{window}}"}}},
		{Title: "How much money is returned?", Kind: Series, Width: 12, Unit: "currencyBRL",
			Description: "Money of settled returns, per second. A return leaves the payee's bank like a payment, so the same laws hold.",
			Queries:     []Query{{`sum(rate(pix_returned_centavos_total[30s])) / 100`, "returned per second"}}},
		{Title: "What happens to returns?", Kind: Series, Width: 12, Unit: "suffix: /s", Stack: true,
			Description: "Settled, and rejected by reason. AM09: more than what is left of the payment. LQ04: no such settled payment. LQ05: another bank received it. DT05: too late. LQ06: too many. LQ11: too many at once. Many AM09 or LQ05 may be an attack.",
			Queries: []Query{
				{`sum(rate(pix_returns_total{status="ACSC"}[30s]))`, "settled"},
				{`sum by (reason) (rate(pix_returns_total{status="RJCT"}[30s])) > 0`, "rejected {{reason}}"}}},
		{Title: "What do these checks cost the ledger?", Kind: Series, Width: 12, Unit: "s", Log: true,
			Description: "Time of the one look-up that reads all balances (p99).",
			Queries:     []Query{{`histogram_quantile(0.99, sum by (le) (rate(pix_books_read_seconds_bucket[1m])))`, "p99"}}, Thresholds: []Threshold{{1, orange}}},
	}},
}}

var recovery = Dashboard{UID: "liquida-recovery", Title: "Recovery", Description: "Kill something and watch: what was felt, and for how long?", Rows: []Row{
	{"What was felt?", 5, []Panel{
		{Title: "How often did something restart?", Kind: Stat, Width: 6, Unit: "short",
			Description: "Restarts within the shown time: processes that were seen, less those that ran side by side. A container that comes back with a new address counts.",
			Queries:     []Query{restarted}, Thresholds: []Threshold{{1, orange}, {10, red}}},
		{Title: "What was the longest standstill?", Kind: Stat, Width: 6, Unit: "s",
			Description: "Longest time within the shown time in which payments waited and none settled: under constant load from the kill to the first settlement. Without load it does not grow. It must stay below the deadline of 40 s.",
			Queries:     []Query{longestStandstill}, Thresholds: []Threshold{{10, orange}, {40, red}}},
		{Title: "How long from start to first settlement?", Kind: Stat, Width: 6, Unit: "s",
			Description: "Of the slowest engine, from the start of its process: connect, join the group, read the ends of the responses, clear a payment. If the payment was written later, from then on.",
			Queries:     []Query{{`max(pix_start_to_settled_seconds > 0)`, "start to first"}}, Thresholds: []Threshold{{10, orange}, {40, red}}},
		sinceSettled.wide(6),
	}},
	{"What happened?", 9, []Panel{
		{Title: "Who was up when?", Kind: States, Width: 12, Unit: "none",
			Description: "Green: the process answers Prometheus. Red: it does not. Gap: it is gone.",
			Queries:     []Query{{`up`, "{{job}} {{instance}}"}}, FloorColor: red, Thresholds: []Threshold{{1, green}}},
		{Title: "When did payments stop, and catch up?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "After a fault settled stays above offered until the backlog is gone.",
			Queries:     []Query{{`pix:offered:rate10s`, "offered"}, {`sum(rate(pix_payments_total{status="ACSC"}[10s]))`, "settled"}}},
		{Title: "For how long did nothing settle?", Kind: Series, Width: 12, Unit: "s",
			Description: "Seconds since the last settlement, while payments wait. Each tooth is an outage. 0 while nothing waits.",
			Queries:     []Query{{`pix:standstill_seconds`, "since the last"}}, Thresholds: []Threshold{{10, orange}, {40, red}}},
		absorbed,
		oldest,
		fates,
		owners,
		{Title: "How much had to be looked up?", Kind: Series, Width: 12, Unit: "suffix: /s",
			Description: "Ids that engines looked up in the ledger: 134 for each return, 5 for a copy or for a payment that was unfinished at a restart. The load test's mix takes about 5 a message, nearly all for returns. A restart shows as a peak.",
			Queries:     []Query{{`sum by (kind) (rate(pix_ledger_request_events_sum{kind!="write"}[30s]))`, "{{kind}}"}}},
	}},
}}
