# Liquida: everything that a person or CI does with this repo is a target here.
# The modules are listed once; go.work lists the same.
MODULES := proto platform services/producer services/clearing-engine services/bank-simulator client examples loadtest deploy
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
# Only what depends on the broker: its groups, its checks of batches, its rights; its death and zombies on the real one.
REDPANDA_TESTS := TestEngineTakenOver|TestHostileBatches|TestSecuredKafka
APACHE_TESTS := TestEngineKilledTenTimes|TestZombieEngine|TestBrokerKilled|TestHostileBatches|TestSecuredKafka
OPERATE_RATE ?= 100
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
.PHONY: help bench bench-all drawings bench-postgres profile chaos operate heist correctness demo test test-kafka test-live test-replicas test-room up down status clean load audit build tigerbeetle lint check-generated generate settings check-settings check-docs openapi fuzz prove-ledgermodel explore simulate mutants test-api test-foreign-client test-python-bank check-modules check-manifests dashboards verify-dashboards test-grafana preflight verify-compose verify-kubernetes ci

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

demo: $(STACK) ## clear 10,000 payments of every kind on a stack of its own, then prove the books: make demo KAFKA=apache REPLICAS=3, or KAFKA=redpanda-like
	@$(STACK) demo --kafka $(KAFKA) $(LOCKS) --replicas $(REPLICAS)

# End-to-end tests mostly wait, and the engine's mostly compute, so they begin together, with the longest of the others
# behind them. make lint vets. Without DWARF, programs of tests link in half the time.
TEST_ELSEWHERE := ^(TestLiveAudit(Turns|Stays|Through|Costs?|Says).*|TestApacheKafka.*|TestReplicaLost|$(REDPANDA_TESTS)|$(APACHE_TESTS))$$
test: tigerbeetle ## run the tests: real processes on a real TigerBeetle server and a broker over TCP, and scenarios in virtual time (about 4 minutes); test-kafka, test-replicas, test-live and test-room have the others
	go test -timeout 20m -vet=off -ldflags=-w -p 4 -skip '$(TEST_ELSEWHERE)' ./loadtest/e2e ./services/clearing-engine/engine ./services/producer ./loadtest/simulation ./deploy/stack ./deploy/bootstrap ./loadtest/conform ./deploy/ledgermodel ./deploy/ledgerfacts ./services/bank-simulator ./loadtest/rivals $(PACKAGES)

# They load a stack for two minutes each, so beside others they would slow all of them down.
test-live: tigerbeetle ## run the tests of the live audit: through kills it stays green, planted lies turn it red, and it says what it does not see (about 6 minutes)
	go test -timeout 20m -parallel 2 -v -run '^TestLiveAudit' ./loadtest/e2e

test-kafka: tigerbeetle ## run the end-to-end tests of what depends on the broker, on one that behaves like Redpanda and on Apache Kafka; the latter skipped, with the reason, without Java or Maven (about 5 minutes)
	E2E_KAFKA=redpanda-like go test -count 1 -timeout 20m -parallel 2 -v -run '^($(REDPANDA_TESTS))$$' ./loadtest/e2e
	E2E_KAFKA=apache go test -count 1 -timeout 20m -parallel 1 -v -run '^($(APACHE_TESTS))$$' ./loadtest/e2e
	go test -count 1 -timeout 20m -p 1 -v -run '^TestApacheKafka' ./deploy/kafka ./deploy/stack

# Three replicas need as much memory and CPU as three clearing houses of other tests.
test-replicas: tigerbeetle ## lose each of three replicas of the ledger under load, one after the other (about 1 minute)
	go test -count 1 -timeout 20m -v -run '^TestReplicaLost$$' ./loadtest/e2e

test-room: ROOM_ARGS ?= -kills 20 -rate 20000
test-room: tigerbeetle ## open the control room in Chromium (installed with apt-get where it is missing), kill engines by its buttons, plant bugs, and load it (about 6 minutes); on a quiet machine, green all along and red within two seconds: make test-room ROOM_ARGS='-kills 20 -rate 20000 -strict'
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

load: build ## send load to the running stack: make load RATE=1000 DURATION=60s
	@bin/loadtest run --rate $(RATE) --duration $(DURATION)

audit: build ## prove the running stack's books: one outcome for each payment, every centavo in place
	@bin/loadtest audit

bench: build ## measure the ledger alone, the pipeline's maximum, latencies, costs and the HTTP API (quiet machine; some 20 minutes): make bench ARGS='--runs 3 --compare FILE'; overload, three times the maximum and what is left of it: make bench ARGS='--parts overload'
	@bin/loadtest bench --json .stack/bench.json --report .stack/bench.html $(ARGS)

drawings: build ## draw the plots of FINDINGS.md from the result in findings/
	@bin/loadtest bench --from findings/bench.json --drawings findings >/dev/null

bench-all: build ## measure more: ids, engines, banks, slow banks, payees, customers, overload, and growth to four million payments (an hour; 50 GB of disk)
	@bin/loadtest bench --parts all --json .stack/bench.json --report .stack/bench.html $(ARGS)

profile: build ## show where the engine spends time and memory at its maximum; writes .stack/profiles
	@bin/loadtest bench --parts profile $(ARGS)

bench-postgres: build ## measure PostgreSQL and TigerBeetle side by side with the same payments (needs PostgreSQL 15; quiet machine; about 20 minutes): make bench-postgres ARGS='--json FILE'
	@bin/loadtest bench-postgres $(ARGS)

chaos: build ## break a stack of its own while payments flow, then prove that nothing was lost (about 3 minutes): make chaos ARGS='--seed 7 --duration 10m'
	@bin/loadtest chaos $(ARGS)

operate: build ## run a clearing house as its people do, under load: banks join, are capped, suspended and resumed, keys rotate, engines freeze, acts race (about 4 minutes): make operate OPERATE_RATE=300
	@bin/loadtest operate --rate $(OPERATE_RATE) $(ARGS)

heist: build ## rob a bank with a stolen key, without a cap and with one, and print what is lost (about 2 minutes): make heist ARGS='--rate 300'
	@bin/loadtest heist $(ARGS)

correctness: build ## run the tests that prove the promise, and print a table of them (half an hour): make correctness ARGS='--count 3'
	@bin/loadtest correctness $(ARGS)

build: ## build all programs into bin/
	go build -o bin/ ./services/producer ./services/clearing-engine ./services/bank-simulator ./client/liquida ./loadtest ./deploy/cmd/...

$(STACK): $(shell find deploy platform proto -name '*.go') go.work
	@mkdir -p bin
	go build -o $(STACK) ./deploy/cmd/stack

tigerbeetle: ## find or build the TigerBeetle server, and print its path
	@go run ./deploy/cmd/tigerbeetle

lint: ## check formatting, go vet and golangci-lint (installed into .cache/tools)
	@.ci/tools.sh golangci-lint
	@test -z "$$(gofmt -l $(MODULES) | tee /dev/stderr)" || { echo 'gofmt: the files above are not formatted; run gofmt -w on them' >&2; exit 1; }
	nice .cache/tools/golangci-lint run $(PACKAGES)

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
simulate: ## break the clearing house in virtual time, one world for each seed, and judge each; shows the first seed that fails, runs it 20 times more, and looks for its smallest part that fails: make simulate SEEDS=100 SEED=7; a part of one world: make simulate SEEDS=1 SEED=7 ARGS='-payments 50 -faults 3,17'
	go test -count=1 -tags synctests -timeout 24h -v -run '^TestWorlds$$' ./loadtest/simulation -args -seeds $(SEEDS) -seed $(SEED) -repeat 20 -shrink 10m $(ARGS)

mutants: WORLDS = 3
mutants: SEED = 1
mutants: build ## plant each bug of loadtest/mutants in a build of its own, and show which judge of the simulated worlds finds it: make mutants WORLDS=12 SEED=1001 ARGS='--run seal'
	@bin/loadtest mutants --worlds $(WORLDS) --seed $(SEED) $(ARGS)

test-api: build tigerbeetle ## try the HTTP API with requests made from its description, up to API_EXAMPLES for each operation (schemathesis, into .cache/tools; skipped, with a line, if it cannot be installed)
	@API_EXAMPLES=$(API_EXAMPLES) .ci/test-api.sh

test-foreign-client: tigerbeetle ## pay with a client generated by openapi-python-client from the API's description (into .cache/tools; skipped, with a line, if it cannot be installed)
	@.ci/test-foreign-client.sh

test-python-bank: ## try the receiving bank of examples/python against docs/participant.md, killed in the middle (its Kafka client from PyPI, into .cache/tools; skipped, with a line, if it cannot be installed)
	@.ci/test-python-bank.sh

check-modules: ## check that each module builds alone, without go.work
	@for module in $(MODULES); do echo "build $$module alone"; (cd $$module && GOWORK=off nice go vet ./...) || exit 1; done

check-manifests: build ## check the manifests for Kubernetes: schemas, names, labels, settings, network policies (no cluster needed)
	@.ci/check-manifests.sh

dashboards: ## write the Grafana dashboards from their source, deploy/dashboards
	@go run ./deploy/cmd/dashboards

verify-dashboards: tigerbeetle ## run every expression of every dashboard and rule on a running stack (needs Prometheus)
	@.ci/tools.sh grafana
	LIQUIDA_NEEDS_PROMETHEUS=1 GRAFANA_LIBRARY=$(CURDIR)/.cache/tools/grafana go test -count=1 -timeout 15m ./deploy/dashboards

test-grafana: ## ask Grafana's own code (npm, into .cache/tools) whether annotations show restarts, and check the dashboards against its types
	@.ci/tools.sh grafana
	GRAFANA_LIBRARY=$(CURDIR)/.cache/tools/grafana go test -count=1 -v -run 'InGrafana$$' ./deploy/dashboards

preflight: ## list what stops docker compose up on this machine, before anything is pulled
	@deploy/preflight.sh

verify-compose: ## prove docker-compose.yml with a Docker daemon of its own (root on Linux, half an hour)
	@deploy/verify-compose.sh

verify-kubernetes: ## prove deploy/kustomize on a Kubernetes built from its source, one node (root on Linux, about 10 minutes, the first time half an hour)
	@deploy/verify-kubernetes.sh

# The server's build has one thread, so what compiles runs beside it, and lets tests go first (nice). Tests with brokers mostly wait, so the rest runs beside them.
CI_STEPS := test + lint check-generated check-docs check-settings check-modules check-manifests -- test-kafka + test-api test-foreign-client test-room test-grafana + operate test-live + test-replicas test-python-bank fuzz
ci: export FUZZ_INPUTS = 10000
ci: export API_EXAMPLES = 8
ci: export ROOM_ARGS = -kills 5 -rate 3000
ci: export OPERATE_RATE = 30
ci: ## run all that CI checks, and print how long each step took
	@.ci/steps.sh $(CI_STEPS)
