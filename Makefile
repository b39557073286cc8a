# Liquida: everything that a person or CI does with this repo is a target here.
# The modules are listed once; go.work lists the same.
MODULES := proto platform services client client/liquida examples loadtest deploy
PACKAGES := $(addprefix ./,$(addsuffix /...,$(MODULES)))
STACK := bin/stack
RATE ?= 1000
DURATION ?= 60s
KAFKA ?= embedded
KAFKA_LOCKS ?= off
REPLICAS ?= 1
CUTS ?= off
# A count and not a time: with a time, fuzzing may end with "context deadline exceeded" and no
# input (go.dev/issue/75804, fixed in Go 1.27).
FUZZ_INPUTS ?= 60000
API_EXAMPLES ?= 40
# Only what depends on the broker: its groups, its checks of batches, its rights, its death, and zombies.
APACHE_TESTS := TestAnOlderLedgerIsNotTaken|TestEngineKilledTenTimes|TestSecuredKafka|TestLeadersKilled
export CGO_ENABLED := 1

audit: export ANSWER_KEYS_FILE ?= $(wildcard .stack/answer-keys)

ifeq ($(CUTS),on)
LINKS := --cuts
endif

# With a secured Kafka, load and audit are the user loadtest.
ifeq ($(KAFKA_LOCKS),on)
LOCKS := --kafka-locks
audit load: export KAFKA_TLS := true
audit load: export KAFKA_TLS_CA_FILE := .stack/kafka-keys/ca.pem
audit load: export KAFKA_SASL_USER := loadtest
audit load: export KAFKA_SASL_PASSWORD_FILE := .stack/kafka-keys/loadtest/password
endif

.DEFAULT_GOAL := help
.PHONY: help bench bench-all bench-gate drawings chaos evidence heist rebuild demo test test-kafka test-live test-replicas test-room up down status clean load audit build tigerbeetle lint check-generated generate settings check-settings check-docs openapi fuzz prove-ledgermodel explore simulate mutants test-api test-foreign-client test-proxy test-python-bank test-readers test-dashboards test-documents lines check-modules check-manifests preflight verify-compose ci

FIRST := demo up status load audit down clean chaos test ci
help: ## list every target
	@awk 'BEGIN {FS = ":.*## "; count = split("$(FIRST)", first, " ")} \
		/^[a-z-]+:.*## / {line[$$1] = sprintf("  make %-16s %s", $$1, $$2); names[++all] = $$1} \
		END { \
			for (i = 1; i <= count; i++) {print line[first[i]]; shown[first[i]] = 1} \
			print "\nAll others:"; \
			for (i = 1; i <= all; i++) if (!(names[i] in shown)) print line[names[i]] \
		}' $(MAKEFILE_LIST)
	@printf '\nThe first make demo or make test builds the TigerBeetle server (some minutes, then cached).\n'

demo: build ## clear 10,000 payments of every kind on a stack of its own, kill its engine meanwhile, then prove the books: make demo KAFKA=apache REPLICAS=3, or KAFKA=redpanda-like
	@bin/loadtest chaos --script '10s kill-engine' --engines 1 --seed 1 --rate 500 --duration 20s --deadline 10s --allow AB03,LQ10,LQ13 --room --dir .stack/demo --kafka $(KAFKA) $(LOCKS) --replicas $(REPLICAS)
	@echo
	@echo 'The report opens in any browser. Next:'
	@echo '  make up                               # the same in the background, with a control room: it prints the URL'
	@echo '  make load RATE=2000 DURATION=30s      # while it runs, kill the engine in the control room'
	@echo '  make audit                            # proves one outcome for each payment'
	@echo '  make chaos                            # faults of every kind'
	@echo '  make rebuild                          # the ledger is destroyed, and comes back'

# All is compiled, and on the disk, before a test runs: while a newcomer's machine compiled, a ledger was silent for 15
# s, longer than a payment may take. End-to-end tests mostly wait, and the engine's mostly compute, so they begin
# together, with the longest of the others behind them. make lint vets. Without DWARF, programs of tests link in half
# the time. With the tag synctests the Kafka client's locks let virtual time pass: without it who commits during a
# rebalance stops that time for good.
TEST_ELSEWHERE := ^(TestHeist|TestLiveAudit(Turns|Stays|Says).*|TestReplicaLost|TestAnOlderLedgerOfReplicasIsNotTaken|TestBackup.*|$(APACHE_TESTS))$$
test: tigerbeetle ## run the tests: real processes on a real TigerBeetle server and a broker over TCP, and scenarios in virtual time (about 6 minutes); test-kafka, test-replicas, test-live and test-room have the others
	go list -export -test -deps -tags synctests $(PACKAGES) >/dev/null
	sync
	go test -timeout 20m -vet=off -ldflags=-w -tags synctests -p 3 -skip '$(TEST_ELSEWHERE)' ./loadtest/e2e ./services/clearing-engine/engine ./services/producer ./loadtest/simulation ./deploy/stack ./deploy/bootstrap ./loadtest/conform ./deploy/ledgermodel ./deploy/ledgerfacts ./services/bank-simulator $(PACKAGES)

# They load a stack for two minutes each, so beside others they would slow all of them down.
test-live: tigerbeetle ## run the tests of the live audit: through kills it stays green, planted lies turn it red, and it says what it does not see (about 6 minutes)
	go test -timeout 20m -parallel 2 -v -run '^TestLiveAudit' ./loadtest/e2e

# TestAcknowledgedIsStored runs on all three: where requests name no topic id, as of Redpanda, only offsets tell of another log.
test-kafka: tigerbeetle ## run the end-to-end tests of what depends on the broker on Apache Kafka, skipped, with the reason, without Java or Maven; and one on a broker that behaves like Redpanda (about 7 minutes)
	E2E_KAFKA=redpanda-like go test -count 1 -timeout 20m -v -run '^TestAcknowledgedIsStored$$' ./loadtest/e2e
	E2E_KAFKA=apache go test -count 1 -timeout 20m -parallel 1 -v -run '^($(APACHE_TESTS)|TestAcknowledgedIsStored|TestChaos)$$' ./loadtest/e2e

# Three replicas need as much memory and CPU as three clearing houses of other tests.
test-replicas: tigerbeetle ## lose each of three replicas of the ledger under load, one after the other; run the commands of docs/backup.md (about 4 minutes)
	go test -count 1 -timeout 20m -v -run '^(TestReplicaLost|TestAnOlderLedgerOfReplicasIsNotTaken|TestBackup.*)$$' ./loadtest/e2e

test-room: ROOM_ARGS ?= -rate 20000
test-room: tigerbeetle ## open the control room in Chromium (installed with apt-get where it is missing), kill engines by its buttons, plant bugs, and load it (about 6 minutes); on a quiet machine, green all along and red within two seconds: make test-room ROOM_ARGS='-rate 20000 -strict'
	@.ci/chromium.sh
	go test -tags browser -count 1 -timeout 40m -v -run '^TestTheControlRoom$$' ./loadtest/room -args $(ROOM_ARGS)

up: $(STACK) ## start the stack in the background: Kafka 9092, TigerBeetle 3001, producer 8080, bank-simulator 8081, control room 8090: make up KAFKA=apache REPLICAS=3 KAFKA_LOCKS=on, or CUTS=on
	@$(STACK) up --kafka $(KAFKA) $(LOCKS) $(LINKS) --replicas $(REPLICAS)

down: $(STACK) ## stop the stack; the data stays
	@$(STACK) down

status: $(STACK) ## show what runs, and what is not ready and why
	@$(STACK) status

clean: $(STACK) ## remove the stack's data and logs (refused while it runs)
	@$(STACK) clean

load: build ## send load to the running stack, and write .stack/load.html: make load RATE=1000 DURATION=60s ARGS="--fail-if 'p99>500ms'"
	@bin/loadtest run --rate $(RATE) --duration $(DURATION) --report .stack/load.html $(ARGS)

audit: build ## prove the running stack's books, after the load: one outcome for each payment, every centavo in place
	@bin/loadtest audit

bench: build ## measure the ledger alone, the pipeline's maximum, latencies, costs and the HTTP API (quiet machine; some 20 minutes): make bench ARGS='--runs 3 --compare FILE'
	@bin/loadtest bench --json .stack/bench.json --drawings .stack/drawings $(ARGS)

drawings: build ## draw the plots of FINDINGS.md from the result in findings/
	@bin/loadtest bench --from findings/bench.json --drawings findings >/dev/null

bench-all: build ## measure floods, slow banks and growth, too (an hour; 43 GB of disk); other banks, engines or mixes: make bench ARGS='--parts maximum --engines 4 --mix hottest'
	@bin/loadtest bench --parts all --json .stack/bench.json --drawings .stack/drawings $(ARGS)

bench-gate: build ## compare short ratios (of the ledger alone, of a bare pipeline) with those in findings/bench.json; worse by 15 % twice is a failure (5 minutes; quiet machine)
	@nothing_worse() { bin/loadtest bench --parts gate --runs 3 --compare findings/bench.json; }; nothing_worse || { echo 'measuring again: what is worse must be so twice'; nothing_worse; }

chaos: build ## break a stack of its own while payments flow, then prove that nothing was lost (about 3 minutes): make chaos ARGS='--seed 7 --duration 10m'
	@bin/loadtest chaos $(ARGS)

evidence: DURATION := 1h
evidence: build ## an hour at 2,000/s with faults every few minutes, and a folder that a stranger can check: make evidence DURATION=10m
	rm -rf .stack/evidence
	@bin/loadtest chaos --script hour --duration $(DURATION) --rate 2000 --engines 2 --replicas 3 --room --seed 1 --dir .stack/evidence-run --evidence .stack/evidence --fail-if 'late>1%' --fail-if 'excused>2%' $(ARGS)
	@bin/liquida archive verify .stack/evidence/archiver

rebuild: tigerbeetle ## destroy the ledger under load, build it again from its archive and the topics, and audit it (about 2 minutes)
	cd loadtest/e2e && go test -count 1 -timeout 20m -v -run '^TestRebuild$$'

heist: tigerbeetle ## run a clearing house as its people do, under load: a bank joins, another is robbed with a stolen key, without a cap and with one; print what is lost (about 2 minutes)
	cd loadtest/e2e && go test -count 1 -timeout 20m -run '^TestHeist$$'

# As stack.Build, or each would link anew what the other has linked.
LINK := -ldflags='-s -w'
build: ## build all programs into bin/
	go build $(LINK) -o bin/ ./services/producer ./services/clearing-engine ./services/bank-simulator ./services/archiver ./client/liquida ./loadtest ./deploy/cmd/...

$(STACK): $(shell find deploy platform proto -name '*.go') go.work
	@mkdir -p bin
	go build $(LINK) -o $(STACK) ./deploy/cmd/stack

tigerbeetle: ## find or build the TigerBeetle server, and print its path
	@go run ./deploy/cmd/tigerbeetle

lint: ## check formatting, go vet, golangci-lint (installed into .cache/tools), and that each planted bug still applies
	@.ci/tools.sh golangci-lint
	@test -z "$$(gofmt -l $(MODULES) | tee /dev/stderr)" || { echo 'gofmt: the files above are not formatted; run gofmt -w on them' >&2; exit 1; }
	nice .cache/tools/golangci-lint run $(PACKAGES)
	@.ci/mutants.sh --check

generate: ## generate the Go code of the messages
	@proto/generate.sh

check-generated: ## check the messages: their form, that old ones stay readable, that the Go code is current
	@proto/check.sh

settings: build ## write docs/settings.md from what the programs print with --help
	@.ci/settings.sh

check-settings: build ## check that docs/settings.md is current
	@.ci/settings.sh --check

check-docs: ## check that the files, links, targets, tests, settings and metrics that documents name exist
	@.ci/docs.sh

openapi: ## write the description of the producer's HTTP API, services/producer/openapi.json
	@LIQUIDA_WRITE_OPENAPI=1 go test -count=1 -run '^TestTheDescriptionIsTheCodes$$' ./services/producer/frontdoor

fuzz: ## try FUZZ_INPUTS inputs on each decoder, and keep those that break it in testdata: make fuzz FUZZ_INPUTS=1000000
	@.ci/fuzz.sh $(FUZZ_INPUTS) $(MODULES)

prove-ledgermodel: REQUESTS = 1000000
prove-ledgermodel: SEED = 1
prove-ledgermodel: tigerbeetle ## compare the model of the ledger with the real server on random requests (about half an hour): make prove-ledgermodel REQUESTS=100000 SEED=7
	go test -count=1 -timeout 3h -v -run AnswersAsTheServer ./deploy/ledgermodel -args -requests $(REQUESTS) -seed $(SEED)

explore: ## drive the engine's own decisions in every order in which results, answers, deaths and time can come, in larger plots than make test does; prints the states (not run to its end yet)
	go test -count=1 -timeout 24h -v -run '^TestEveryOrderOfEvents$$' ./services/clearing-engine/engine -args -deep

simulate: SEEDS = 1000
simulate: SEED = 1
simulate: ## break the clearing house in virtual time, one world for each seed, and judge each; shows the first seed that fails: make simulate SEEDS=100 SEED=7; some faults of one world: make simulate SEEDS=1 SEED=7 ARGS='-faults 3,17'
	go test -count=1 -tags synctests -timeout 24h -v -run '^TestWorlds$$' ./loadtest/simulation -args -seeds $(SEEDS) -seed $(SEED) $(ARGS)

mutants: export WORLDS ?= 3
mutants: export SEED ?= 1
mutants: tigerbeetle ## plant each bug of loadtest/mutants in a copy of the repository, and run the test that must catch it there (an hour): make mutants WORLDS=12 SEED=1001 BUG=seal
	@.ci/mutants.sh $(BUG)

test-api: build tigerbeetle ## try the HTTP API with requests made from its description, up to API_EXAMPLES for each operation (schemathesis, into .cache/tools; skipped, with a line, if it cannot be installed)
	@API_EXAMPLES=$(API_EXAMPLES) .ci/test-api.sh

test-foreign-client: tigerbeetle ## pay with a client generated by openapi-python-client from the API's description (into .cache/tools; skipped, with a line, if it cannot be installed)
	@.ci/test-foreign-client.sh

test-proxy: tigerbeetle ## try event streams behind nginx (from PATH, or Debian's, unpacked into .cache/tools; skipped, with a line, if there is none)
	@.ci/test-proxy.sh

test-python-bank: ## try the receiving bank of examples/python against docs/participant.md, killed in the middle (its Kafka client from PyPI, into .cache/tools; skipped, with a line, if it cannot be installed)
	@.ci/test-python-bank.sh

test-readers: ## read statements of days in camt.053 with Odoo's importer and three other public programs, validate them against the schema, ask an archive with DuckDB and pandas, and keep one in a real S3 server (from PyPI and the Go module proxy, into .cache/tools; what cannot be installed is skipped, with a line)
	@.ci/test-readers.sh

test-dashboards: tigerbeetle ## ask Prometheus (from PATH, or Debian's, unpacked into .cache/tools; skipped, with a line, if there is none) what every panel shows of a system that is idle, loaded, after a load, with a silent bank, and without engines (about 2 minutes)
	@.ci/test-dashboards.sh

test-documents: tigerbeetle ## run every command of the documents as it stands, on a stack with a network of its own (root on Linux; DOCUMENTS='docs/api.md' for some; about 5 minutes)
	@.ci/documents.sh $(DOCUMENTS)

lines: ## count lines of code of loadtest and deploy, of the product and of its tests (no blanks, comments, generated code)
	@for of in '! -name *_test.go' '-name *_test.go'; do set -f; find loadtest deploy -name '*.go' ! -name '*.pb.go' $$of | xargs cat | grep -cvE '^\s*(//|$$)'; done

check-modules: ## check that each module builds alone, without go.work
	@for module in $(MODULES); do echo "build $$module alone"; (cd $$module && GOWORK=off nice go vet ./...) || exit 1; done

check-manifests: build ## check the manifests for Kubernetes: schemas, names, labels, settings, network policies (no cluster needed)
	@.ci/check-manifests.sh

preflight: ## list what stops docker compose up on this machine, before anything is pulled
	@deploy/preflight.sh

verify-compose: ## prove docker-compose.yml with a Docker daemon of its own (root on Linux, half an hour)
	@deploy/verify-compose.sh

# The server's build has one thread, so what compiles runs beside it, and lets tests go first (nice). Tests with brokers mostly wait, so the rest runs beside them; a third lane starves them on two cores.
CI_STEPS := test + lint check-generated check-docs check-settings check-modules check-manifests -- test-kafka test-replicas test-api fuzz + test-room test-live test-dashboards heist test-proxy test-foreign-client test-python-bank test-readers test-documents -- bench-gate
ci: export FUZZ_INPUTS = 10000
ci: export API_EXAMPLES = 8
ci: export ROOM_ARGS = -rate 3000
ci: ## run all that CI checks, and print how long each step took
	@.ci/steps.sh $(CI_STEPS)
