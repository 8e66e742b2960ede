# `make` lists the targets. Each does the set-up that it needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Build tags for what this machine has (OpenBLAS, ONNX Runtime); `TAGS=` for a
# plain build. Found when a recipe runs, since setup may add to them.
TAGS = $(shell scripts/tags.sh)
GOTAGS = $(addprefix -tags=,$(TAGS))

# More flags for `go test`: make test TESTFLAGS=-v
TESTFLAGS ?=
# Benchmarks to run, and how often: make bench BENCH=Decision COUNT=10
BENCH ?= .
COUNT ?= 1

# The folder of a report to execute the notebook on, made if it is not given:
# make notebooks DATA=dir
DATA ?=
MAKE_DATA = bin/gearshift paper --quick --out notebooks-out/data

# What `make benchstat` compares the present commit with.
OLD ?=

# How long `make fuzz` fuzzes each of the targets that FUZZ picks.
TIME ?= 30s
FUZZ ?= .

# Of `make soak` and `make chaos`, 30, `make loading`, 5, and `make modality`, 10.
MINUTES ?=
RACE ?=
SEED ?=

# What is tested without C too: what computes, and the learner, whose BLAS is then another.
PLAIN := ./checkpoints/... ./env ./env/engine ./env/evaluation/... ./rl/... ./router/... ./workloads ./internal/scenario

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# The load generator of `make bench-proxy`.
VEGETA := github.com/tsenart/vegeta/v12@v12.13.0

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing (quick when nothing is)
	@scripts/setup.sh

.PHONY: demo
demo: ## Train, evaluate, store, serve and replay a recorded trace: everything, once
	@scripts/setup.sh build
	@scripts/demo.sh

.PHONY: demo-modality
demo-modality: build ## Plan which inputs jobs use, and compare policies of inputs in the simulator (some minutes)
	@scripts/demo-modality.sh

.PHONY: demo-offload
demo-offload: build ## Serve 20 streaming clients, kill one of two engines under them, and compare ARISE, its baselines and ours (a minute)
	@scripts/demo-offload.sh

.PHONY: demo-failover
demo-failover: setup ## Kill, stop and cut off engines under load, and see who answers: for real, KILLS=3 times (minutes; models first)
	@KILLS='$(or $(KILLS),3)' BUSY='$(BUSY)' scripts/failover.sh

.PHONY: quality
quality: build ## Train the default preset and make the table of docs/papers/best-effort.md (SEED=n SEEDS=n)
	@scripts/quality.sh

.PHONY: paper
paper: build ## The paper's whole evaluation, and more, as one report in paper-out (hours)
	bin/gearshift paper --out paper-out

.PHONY: frontier
frontier: build ## Utility against time near the peak alone, in frontier-out, and its picture in docs (an hour)
	bin/gearshift paper --only frontier --seeds 60 --out frontier-out
	cp frontier-out/frontier.svg docs/frontier.svg

.PHONY: notebooks
notebooks: ## Execute the notebooks on a quick report (DATA=dir: on that one)
	@scripts/setup.sh notebooks
	@[ -n "$(DATA)" ] || { $(MAKE) build && echo "$(MAKE_DATA)" && $(MAKE_DATA); }
	@scripts/notebooks.sh "$(or $(DATA),notebooks-out/data)"

.PHONY: picker-real
picker-real: setup ## Pick endpoints for nginx and for a proxy that speaks as Envoy does, while engines die and come (20 minutes; REQUESTS=n)
	@REQUESTS='$(REQUESTS)' scripts/picker.sh

.PHONY: build
build: ## Build bin/gearshift, with OpenBLAS and ONNX Runtime where they are present
	go build -trimpath $(GOTAGS) -o bin/gearshift ./cmd/gearshift

.PHONY: apiserver
apiserver: ## Build kube-apiserver and etcd into .cache, for tests of discovery against them (minutes, once)
	scripts/apiserver.sh

.PHONY: idle
idle: setup ## Measure what a router costs that watches 500 idle engines (a minute)
	GEARSHIFT_IDLE=30s scripts/measure.sh -count=1 -v -run '^TestIdleSlots$$' ./cmd/gearshift

.PHONY: churn
churn: apiserver ## PODS=500 pods come, go, fail and end for MINUTES=5 under load, by a real API server
	go test -count=1 -timeout=0 -v ./internal/app -run 'TestPodsComeAndGo/real' -args -churn-pods=$(or $(PODS),500) -churn-for=$(or $(MINUTES),5)m

.PHONY: onnxruntime
onnxruntime: ## Fetch the ONNX Runtime library into .cache, for builds to come
	@scripts/onnxruntime.sh

.PHONY: test
test: setup ## Run the tests
	go test -timeout 9m $(GOTAGS) $(TESTFLAGS) ./...

.PHONY: browser
browser: setup ## Open the pages in a headless Chromium, which has to be there
	scripts/measure.sh -count=1 -v -timeout 9m -run '^Test(Dashboard|StreamPage)$$' ./cmd/gearshift

.PHONY: race
race: setup ## Run the tests under the race detector
	go test -race -timeout 25m $(GOTAGS) $(TESTFLAGS) ./...

.PHONY: lint
lint: ## Check formatting, go vet, staticcheck and the shell scripts' syntax
	@unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; }
	go vet $(GOTAGS) ./...
	go run $(STATICCHECK) $(GOTAGS) ./...
	@for script in scripts/*.sh .ci/run; do bash -n "$$script"; done

.PHONY: lint-deploy
lint-deploy: ## Check what is in deploy/ by what is installed here, or fetched
	@scripts/lint-deploy.sh

.PHONY: check
check: lint lint-deploy test plain ## Everything a change must pass: lint, test, the plain builds, tidy modules
	go mod tidy -diff
	go mod verify

.PHONY: plain
plain: ## Build without C, with the training stack and without it, and test what then differs
	CGO_ENABLED=0 go build -o /dev/null ./cmd/gearshift
	CGO_ENABLED=0 go vet -tags serveonly ./cmd/gearshift
	CGO_ENABLED=0 go build -tags serveonly -o /dev/null ./cmd/gearshift
	CGO_ENABLED=0 go test -tags serveonly -run TestWithoutTraining ./cmd/gearshift
	CGO_ENABLED=0 go test $(PLAIN)
	CGO_ENABLED=0 go test -run AsItWas ./internal/training

.PHONY: screenshots
screenshots: setup build ## Take the documents' pictures of the dashboard anew (POLICY=ref SHADOW=ref STORE=file MINUTES=n)
	@scripts/screenshots.sh

.PHONY: bench
bench: ## Run the benchmarks (BENCH=pattern COUNT=n)
	@scripts/bench.sh '$(BENCH)' -count $(COUNT)

.PHONY: bench-compare
bench-compare: ## Measure ours beside PyTorch and a Python environment (ROUNDS=n TIME=s DOC=file)
	@scripts/bench-compare.sh

.PHONY: bench-curve
bench-curve: ## Utility against time of training, beside a loop in PyTorch; 20 minutes (SECONDS_MAX=s SEEDS=n DOC=file)
	@scripts/bench-curve.sh

.PHONY: bench-picker
bench-picker: setup ## Measure what a pick for a gateway takes, beside llm-d-router's picker (LLMD=its program EACH=d)
	@LLMD='$(LLMD)' EACH='$(EACH)' scripts/bench-picker.sh

.PHONY: bench-proxy
bench-proxy: ## Measure what the router adds, beside nginx and Portkey (BEFORE=commit ROUNDS=n TIME=d PIN=0 AWAKE=how DOC=file)
	@VEGETA=$(VEGETA) BENCHSTAT=$(BENCHSTAT) scripts/bench-proxy.sh

.PHONY: gpu
gpu: build ## Measure three decoders on an accelerator, 5 minutes (DEVICE=cpu BUDGET=s OUT=dir DIR=disk PYTHON=path)
	@scripts/gpu.sh

.PHONY: gpu-test
gpu-test: ## Test the script of `make gpu` on the processor, by PyTorch, which it installs (PYTHON=path)
	@scripts/setup.sh peers
	@scripts/gpu.sh test
	GEARSHIFT_TEST_GPU=1 scripts/measure.sh -count=1 -v -run TestMeasuringOnTheProcessor ./cmd/gearshift

.PHONY: benchstat
benchstat: ## Compare the benchmarks of a commit with those of HEAD (OLD=commit BENCH=pattern PKG=folder)
	@BENCHSTAT=$(BENCHSTAT) BENCH='$(BENCH)' scripts/benchstat.sh "$(OLD)"

.PHONY: oracle
oracle: setup ## Hold plans against an exact solver, HiGHS, which it installs (PLANS=300 PLACEMENTS=292 SEED=58000)
	GEARSHIFT_ORACLE=$(or $(PLANS),300) scripts/measure.sh -count=1 -v -timeout 30m -run HiGHS ./router/modality
	GEARSHIFT_ORACLE_PLACEMENTS=$(or $(PLACEMENTS),292) GEARSHIFT_ORACLE_SEED=$(or $(SEED),58000) scripts/measure.sh -count=1 -v -timeout 60m -run 'HiGHS|Plans' ./router/placement

.PHONY: fuzz
fuzz: ## Fuzz every parser of outside bytes, one after the other (TIME=10m FUZZ=regexp)
	@TIME='$(TIME)' FUZZ='$(FUZZ)' scripts/fuzz.sh

.PHONY: loading
loading: setup ## Models that load, unload and sleep under load, for MINUTES=5
	@MINUTES='$(MINUTES)' scripts/loading.sh

.PHONY: modality
modality: setup ## Jobs of the digits model for real, counted on labels and held against the simulation, for MINUTES=10
	@MINUTES='$(MINUTES)' scripts/modality.sh

.PHONY: soak
soak: ## Router and faulty engines under load for long (MINUTES=30 RACE=1 SEED=n)
	@MINUTES='$(MINUTES)' RACE='$(RACE)' SEED='$(SEED)' scripts/soak.sh

.PHONY: chaos
chaos: ## Engines and a router with failover, killed, stopped and started at random for MINUTES=30 (SEED=n CALM=n BUSY=n)
	@MINUTES='$(MINUTES)' SEED='$(SEED)' CALM='$(CALM)' BUSY='$(BUSY)' scripts/chaos.sh

.PHONY: versions
versions: setup ## Versions of a model change CHANGES=10 times in each of three ways, under load with real engines: no request fails
	GEARSHIFT_VERSIONS=$(or $(CHANGES),10) scripts/measure.sh -count=1 -v -timeout 20m -run '^TestVersions|^TestFlawedVersion' ./cmd/gearshift

.PHONY: outage
outage: ## Twenty requests across a minute in which the first replica is dead, three times: what the outage adds
	GEARSHIFT_OUTAGE=1 scripts/measure.sh -count=1 -v -timeout 10m -run '^TestAnOutageOfTheFirstReplica$$' ./cmd/gearshift

.PHONY: streams
streams: build ## Streaming clients with a real detector, each in a process, ours and ARISE-α in turn beside the simulator: for real, 6 minutes (models first)
	@scripts/streams.sh

.PHONY: tail
tail: setup ## Eight engines held to shares of a processor, and clients that choose by what they know: for real, ROUNDS=5 times (an hour; root)
	@ROUNDS='$(ROUNDS)' scripts/tail.sh

.PHONY: demo-tail
demo-tail: setup ## The same in a minute: two choices by headers, and polled by outstanding work (root)
	@QUICK=1 scripts/tail.sh

.PHONY: prompts-real
prompts-real: setup ## Two classifiers of texts in bursts, by their task's mean and by predicted quality: for real, ROUNDS=5 times (MODELS=dir WINDOW=30s)
	@ROUNDS='$(ROUNDS)' WINDOW='$(WINDOW)' MODELS='$(MODELS)' scripts/prompts-real.sh

.PHONY: routers-real
routers-real: setup ## Four routers and pickers before one fleet of simulated engines in real time, with gauges, with shares, with neither, ROUNDS=1 times 12 minutes
	GEARSHIFT_ROUTERS=60s GEARSHIFT_ROUNDS=$(or $(ROUNDS),1) scripts/measure.sh -count=1 -v -timeout 60m -run '^TestRoutersForReal$$' ./cmd/gearshift

.PHONY: shared-store-real
shared-store-real: setup ## Two routers that share an etcd, which are killed, cut off, stopped and slowed: for real, ROUNDS=5 times (4 minutes; root)
	@ROUNDS='$(ROUNDS)' scripts/shared-store.sh

.PHONY: placement-real
placement-real: setup ## Three models in bursts that outgrow them, all loaded and with the router deciding what is: for real, ROUNDS=5 times, 9 minutes
	GEARSHIFT_PLACEMENT=$(or $(ROUNDS),5) scripts/measure.sh -count=1 -v -timeout 60m -run '^TestPlacementForReal$$' ./cmd/gearshift

.PHONY: cover
cover: setup ## Run the tests and print the statement coverage
	go test -timeout 20m $(GOTAGS) -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1
	@echo "by line: go tool cover -html=cover.out"
