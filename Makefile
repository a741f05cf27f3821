# SPDX-License-Identifier: Apache-2.0
#
# Names for what can be done; how it is done is in scripts/ and test/.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Tests share this machine's ports and processors.
.NOTPARALLEL:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)

# Tools that scripts/install-deps brought come first.
export PATH := $(CURDIR)/.tools/bin:$(CURDIR)/.tools/go/bin:$(PATH)
export GOTOOLCHAIN := local
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)
export CGO_ENABLED := 0

# What `go generate` compiles the kernel programs with.
export BPF2GO_CC := clang-19
export BPF2GO_STRIP := llvm-strip-19
export BPF2GO_CFLAGS := -O2 -g -Wall -Werror -mcpu=v3 -I$(CURDIR)/bpf \
	-idirafter /usr/include/$(shell uname -m)-linux-gnu -fdebug-prefix-map=$(CURDIR)=.

# What the end-to-end tests run.
export XLB_BIN := $(CURDIR)/bin/xlb

# test-vm: the kernels to boot, and which of the end-to-end tests run on them.
VM_KERNELS ?= 6.12 6.1
# Kernels that must load the fast path: its programs are verified and its parser tested there on their own.
VM_FAST_KERNELS ?= 6.12
VM_ARGS ?= -test.v

##@ Build

.PHONY: build
build: ## Build bin/xlb; brings a Go toolchain if there is none.
	@scripts/install-deps build
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/xlb ./cmd/xlb

.PHONY: generate
generate: ## Compile the kernel programs and rewrite all generated Go.
	@scripts/install-deps generate
	go generate ./...

.PHONY: man
man: build ## Write the manual pages to bin/man.
	bin/xlb docs man bin/man

# Where install puts the binary; the units for systemd go to /etc/systemd/system. DESTDIR stands before both.
PREFIX ?= /usr/local

.PHONY: install
install: build ## Install the binary, its manual pages and the units for systemd: PREFIX=/usr/local DESTDIR=.
	install -D -m 755 bin/xlb '$(DESTDIR)$(PREFIX)/bin/xlb'
	bin/xlb docs man '$(DESTDIR)$(PREFIX)/share/man/man1'
	for unit in examples/xlb.service examples/heels/xlb-heels.service; do \
		sed 's|/usr/local/bin|$(PREFIX)/bin|' "$$unit" | install -D -m 644 /dev/stdin "$(DESTDIR)/etc/systemd/system/$${unit##*/}"; \
	done

.PHONY: clean
clean: ## Remove what was built; .tools/ and .cache/ stay.
	rm -rf bin

##@ Show

.PHONY: demo
demo: ## Install what is missing, build, and show one connection balanced over real servers.
	@scripts/install-deps demo
	@$(MAKE) --no-print-directory build
	bin/xlb demo

##@ Test

# These install what tests need: one that finds it missing fails, and does not skip.
test test-all test-race test-unit test-e2e: export XLB_REQUIRE_CLIENTS := 1
test test-all test-race test-unit test-e2e: export XLB_REQUIRE_ENVOY := 1

# A hang ends then; a busy machine does not.
TEST_LIMIT := 60m
# internal/heels has tests of minutes, in namespaces: with the packages below it, it is a part of test-all.
UNIT_PACKAGES := ./bench/... ./test/imports ./test/words ./test/docs ./test/suite ./test/violation ./test/verdict \
	./test/chaos/... ./test/hostile/traffic ./test/routes ./test/balance ./test/hashing ./test/fuzz/grammar ./test/heels/traffic ./test/tcptest ./test/await ./test/machine \
	./test/golden ./test/pods ./test/model ./test/envoyexamples ./test/systemd ./examples/...

.PHONY: test
test: ## Install what is missing, build, and run what every change must pass: ten minutes (root).
	@scripts/isolate --clean
	@scripts/install-deps test
	@rm -rf bin/test-results
	@$(MAKE) --no-print-directory build fuzz-replay test-unit-short test-e2e-short test-heels-short
	@go run ./test/verdict bin/test-results/*.json

# Steps of test: with -short, tests that say so (test/suite) are left to test-all.
.PHONY: test-unit-short test-e2e-short
test-unit-short:
	packages=$$(go list ./cmd/... ./internal/... | grep -v /internal/heels); exec scripts/gotest unit -short -timeout=$(TEST_LIMIT) -- $$packages $(UNIT_PACKAGES)

test-e2e-short: export GOTESTSUM_FORMAT := testname
test-e2e-short:
	scripts/gotest e2e -short -count=1 -timeout=$(TEST_LIMIT) -parallel=3 -- ./test/e2e/...
	scripts/gotest conformance -short -count=1 -timeout=$(TEST_LIMIT) -- ./test/conformance
	scripts/gotest hostile -short -count=1 -timeout=$(TEST_LIMIT) -- ./test/hostile

SHARD ?= 1/1
.PHONY: test-all
test-all: ## Every test, or one shard of them: SHARD=2/6 is a quarter of an hour (root). A line about each run is in test/RUNS.md.
	@scripts/isolate --clean
	@scripts/install-deps test
	@$(MAKE) --no-print-directory build
	RACE_SKIP='$(QUICK_SKIP)|$(RACE_SKIP)' scripts/test-all $(SHARD)

.PHONY: test-unit
test-unit: build ## Unit tests, all of them.
	@scripts/install-deps test
	scripts/gotest unit -timeout=$(TEST_LIMIT) -- ./cmd/... ./internal/... $(UNIT_PACKAGES)

# What takes many seconds is left to test-unit: HEELS, which is a system of its own, and these.
QUICK_SKIP := TestSmallChangesAreMadeInPlace|TestKernelDecidesByTheOldRoutesOrTheNewWhileTheyChange|TestCompiledTableRoutesAsTheModel|TestEnvoyRunsWhatIsAccepted
# The heart of it: balancing, routes, reloads, ends, framing, and that nothing is left behind.
QUICK_E2E := TestRoundRobinSpreadsOneConnectionEvenly|TestRoutesByHostPathAndHeaderFirstMatchWins|TestOneConnectionPerRequestIsServedFast|TestReloadUnderLoadLosesNoRequest|TestBrokenFileIsRefusedAndTheOldConfigurationStays|TestTerminationFinishesRequestsInFlight|TestNoAmbiguousRequestReachesAnEndpoint|TestKilledDaemonsLeaveNothing

.PHONY: test-quick
test-quick: build ## While you write: the packages' own tests, and a handful of end-to-end ones (root).
	@scripts/install-deps build
	go test -timeout 5m -skip '^($(QUICK_SKIP))$$' $$(go list ./cmd/... ./internal/... | grep -v /internal/heels) ./bench/... ./test/imports ./test/words ./test/docs
	go test -count=1 -timeout 3m ./test/e2e -run '^($(QUICK_E2E))$$'

# The first two compare automata and tables at random in one goroutine, for minutes, and share nothing. The third handles 10,000 resources within a time that
# ten times the work does not keep; the same code runs in TestAnyOrder and TestWarming.
RACE_SKIP := TestAMemoChangesNothing|TestKernelRoutesAsTheModelAndTheCompiledTable|TestManyResources
.PHONY: test-race
test-race: ## Unit tests under the race detector, without those that calculate for minutes and share nothing.
	@scripts/install-deps test
	CGO_ENABLED=1 go test -race -timeout 20m -skip '^($(QUICK_SKIP)|$(RACE_SKIP))$$' ./cmd/... ./internal/... ./bench/...

.PHONY: test-e2e
test-e2e: export GOTESTSUM_FORMAT := testname
test-e2e: build ## End-to-end tests on this kernel, all of them (root).
	@scripts/install-deps test
	scripts/gotest e2e -count=1 -timeout=$(TEST_LIMIT) -parallel=3 -- ./test/e2e/...
	scripts/gotest conformance -count=1 -timeout=$(TEST_LIMIT) -- ./test/conformance
	scripts/gotest hostile -count=1 -timeout=$(TEST_LIMIT) -- ./test/hostile

.PHONY: test-mutants
test-mutants: ## Show that make test finds faults: puts some into a copy of this tree, one by one, and runs the tests that must become red (root); five minutes.
	@scripts/install-deps generate test
	scripts/mutants

.PHONY: test-heels
test-heels: build ## HEELS in namespaces, with balancers that rewrite and that encapsulate (root); fifteen minutes, alone on the machine. XLB_KATRAN_SRC=DIR: Katran, too.
	@scripts/install-deps test
	go test -count=1 -timeout 25m ./test/heels
	go test -count=1 -timeout 5m -run HEELS ./test/apps

.PHONY: test-heels-short
test-heels-short: build ## A part of it: each balancer once, fewer connections, few faults; a minute, and part of make test.
	@scripts/install-deps test
	scripts/gotest heels -short -count=1 -timeout=$(TEST_LIMIT) -- ./test/heels

HEELS_LIVES_MINUTES ?= 60
.PHONY: test-heels-lives
test-heels-lives: ## HEELS through random lives of two hosts: HEELS_LIVES_MINUTES=60 (root).
	@scripts/install-deps test
	go test -count=1 -v -timeout 0 -run LivesLoseNoConnection ./internal/heels -lives.time $(HEELS_LIVES_MINUTES)m

.PHONY: test-examples
test-examples: build ## The applications of examples/, with XLB, with Envoy and with nobody between their services (root).
	@scripts/install-deps examples
	go test -v -count=1 -timeout 15m ./test/apps

.PHONY: test-istiod
test-istiod: build ## XLB and Envoy under Istio's own control plane, built from source: the first time takes a quarter of an hour (root).
	@scripts/install-deps istiod
	go test -v -count=1 -timeout 15m -skip Kubernetes ./test/istiod

.PHONY: test-kubernetes
test-kubernetes: build ## The same with Services of a real Kubernetes API server, built from source: another quarter of an hour (root).
	@scripts/install-deps kubernetes
	go test -v -count=1 -timeout 15m -run Kubernetes ./test/istiod

.PHONY: test-containerd
test-containerd: build ## Pods that containerd runs and reports to XLB (NRI), containerd built from source: the first time takes minutes (root).
	@scripts/install-deps containerd
	XLB_REQUIRE_CLIENTS=1 scripts/isolate go test -v -count=1 -timeout 15m ./test/containerd

.PHONY: test-systemd
test-systemd: build ## XLB run by a real systemd from the units that it ships, with all that they deny denied (root); half a minute.
	@scripts/install-deps systemd
	XLB_REQUIRE_CLIENTS=1 scripts/isolate go test -v -count=1 -timeout 5m ./test/systemd

.PHONY: test-gateway
test-gateway: build ## Envoy Gateway drives XLB and, beside it, Envoy (root); builds Envoy Gateway from source.
	@scripts/install-deps envoy-gateway
	go test -v -count=1 -timeout 15m ./test/gateway

.PHONY: websocket
websocket: build ## WebSocket through XLB with the libraries of Node and Python (root).
	@scripts/install-deps websocket
	XLB_REQUIRE_CLIENTS=1 go test -v -count=1 -timeout 30m ./test/interop/websocket

.PHONY: test-vm
test-vm: build ## End-to-end tests on Debian's kernels in QEMU: VM_KERNELS='6.12 6.1' VM_ARGS='-test.v'.
	@scripts/install-deps test vm
	go test -c -o bin/e2e.test ./test/e2e
	go test -c -o bin/datapath.test ./internal/datapath
	test/vm/run-all '$(VM_FAST_KERNELS)' --timeout 300 --chdir internal/datapath -- $(CURDIR)/bin/datapath.test
	test/vm/run-all '$(VM_KERNELS)' --timeout 3600 --chdir test/e2e -- env XLB_BIN=$(XLB_BIN) $(CURDIR)/bin/e2e.test $(VM_ARGS)

.PHONY: model
model: ## Check all interleavings of a small XLB, the wider ones too: ten minutes and some gigabytes; test-unit checks the small ones.
	@scripts/install-deps build
	go test -count=1 -timeout 60m -parallel 1 -v ./test/model -model.wide

# chaos: how long, with which choices (0 draws a seed and prints it), and "json" for a summary on standard output.
CHAOS_MINUTES ?= 20
CHAOS_SEED ?= 0
CHAOS_OUTPUT ?= text

.PHONY: chaos
chaos: build ## Random faults of clients, servers and operator under load: CHAOS_MINUTES=20 CHAOS_SEED=1 (root).
	@scripts/install-deps test
	scripts/chaos --minutes $(CHAOS_MINUTES) --seed $(CHAOS_SEED) --output $(CHAOS_OUTPUT)

# test-hostile: how long, with which choices (0 draws a seed and prints it), and one scene alone (-1: all).
HOSTILE_MINUTES ?= 20
HOSTILE_SEED ?= 0
HOSTILE_SCENE ?= -1

.PHONY: test-hostile
test-hostile: build ## Clients and servers that do whatever a kernel lets them do; no byte may come to a wrong place: HOSTILE_MINUTES=20 HOSTILE_SEED=1 (root).
	@scripts/install-deps test
	scripts/hostile --minutes $(HOSTILE_MINUTES) --seed $(HOSTILE_SEED) --scene $(HOSTILE_SCENE)

# test-hostile-control: how long, and with which choices.
MINUTES ?= 10
SEED ?= 1

.PHONY: test-hostile-control
test-hostile-control: build ## A control plane that does at random what it must not, beside clients: MINUTES=10 SEED=1 (root).
	@scripts/install-deps test
	XLB_HOSTILE_CONTROL=$(MINUTES)m XLB_HOSTILE_CONTROL_SEED=$(SEED) go test -v -count=1 -timeout $$(($(MINUTES) + 10))m ./test/e2e -run '^TestControlPlaneAtRandomHarmsNoTraffic$$'

# interop: arguments of the matrix, for instance -output json -out /tmp/matrix.json, or -test.run 'TestInterop/same_host/nginx'.
INTEROP_ARGS ?=

.PHONY: interop
interop: build ## Real clients with real servers, each pair through XLB (root): INTEROP_ARGS='-out FILE'.
	@scripts/install-deps interop
	test/interop/build
	go test -c -o bin/interop.test ./test/interop
	cd test/interop && $(CURDIR)/bin/interop.test -test.v -test.timeout 40m $(INTEROP_ARGS)

# A git checkout of https://github.com/envoyproxy/examples.
EXAMPLES ?=

.PHONY: envoy-examples
envoy-examples: build ## Which of Envoy's examples XLB takes, into docs/reference/envoy-examples.md: EXAMPLES=CHECKOUT.
	@scripts/install-deps test
	go run ./test/envoyexamples '$(EXAMPLES)'

# How long each fuzz target runs.
FUZZ_SECONDS ?= 30

.PHONY: fuzz
fuzz: ## Fuzz the kernel's HTTP parser and routing, compiled natively: FUZZ_SECONDS=30.
	@scripts/install-deps fuzz
	scripts/fuzz $(FUZZ_SECONDS)

.PHONY: fuzz-replay
fuzz-replay: ## The committed fuzz corpus once, input by input.
	@scripts/install-deps fuzz
	scripts/fuzz --replay

.PHONY: fuzz-check
fuzz-check: ## The committed fuzz corpus, and fixed runs.
	@scripts/install-deps fuzz
	scripts/fuzz --check

##@ Check

.PHONY: lint
lint: ## Formatting, static analysis, import rule, licence headers.
	@scripts/install-deps lint
	scripts/lint

.PHONY: check-generated
check-generated: ## Regenerate, and fail if that changes a file.
	@scripts/install-deps generate
	scripts/check-generated

##@ Measure

.PHONY: bench
bench: build ## Compare with a direct connection, nginx and Envoy; see bench/METHOD.md.
	@scripts/install-deps bench
	go run ./bench --check $(BENCH_ARGS)

# Cases of the benchmark: make bench-rate BENCH_ARGS='--topology same --out /tmp/rate'.
BENCH_APPS := bookstore bank
BENCH_CASES := keepalive short setup routes websocket least connections sizes rate chain rules changes $(BENCH_APPS)
BENCH_ARGS ?=

# Applications need more than the rest.
.PHONY: bench-tools-apps
bench-tools-apps:
	@scripts/install-deps examples
$(BENCH_APPS:%=bench-%): bench-tools-apps

.PHONY: bench-NAME $(BENCH_CASES:%=bench-%)
bench-NAME: ## One case of it: keepalive, short, setup, routes, websocket, least, connections, sizes, rate, chain, rules, changes, bookstore, bank, fortio.
	@echo 'make bench-NAME, with one of: $(BENCH_CASES) fortio' && exit 2
$(BENCH_CASES:%=bench-%): bench-%: build
	@scripts/install-deps bench
	go run ./bench --case $* --out bench/results/tmp/$* $(BENCH_ARGS)

.PHONY: bench-heels
bench-heels: build ## HEELS beside direct connections and the balancer's own path: BENCH_ARGS='--case RR --rounds 5 --duration 1s --check'.
	@scripts/install-deps bench
	go run ./bench heels $(BENCH_ARGS)

.PHONY: bench-pods
bench-pods: build ## Network namespaces that come and go, and what memory each takes: BENCH_ARGS='--rate 200 --count 1,100 --check'.
	@scripts/install-deps bench
	go run ./bench pods $(BENCH_ARGS)

.PHONY: bench-neighbours
bench-neighbours: build ## The latencies of a pod beside another that takes all it can: BENCH_ARGS='--rounds 3 --duration 1s --beside idle,flood --check'.
	@scripts/install-deps bench
	go run ./bench neighbours $(BENCH_ARGS)

.PHONY: bench-density
bench-density: build ## What serving 1, 100 and 1,000 pods takes, by one XLB or an Envoy in each: BENCH_ARGS='--count 1,100 --rounds 1 --check'.
	@scripts/install-deps bench
	go run ./bench density $(BENCH_ARGS)

.PHONY: bench-interference
bench-interference: build ## The latencies of a pod's clients beside another's load, behind one XLB or an Envoy in each pod: BENCH_ARGS='--rounds 3 --check'.
	@scripts/install-deps bench
	go run ./bench interference $(BENCH_ARGS)

.PHONY: bench-namespaces
bench-namespaces: build ## XLB's throughput between pods beside that within one namespace: BENCH_ARGS='--rounds 5 --connections 32 --check'.
	@scripts/install-deps bench
	go run ./bench namespaces $(BENCH_ARGS)

.PHONY: bench-fortio
bench-fortio: build
	@scripts/install-deps bench
	go run ./bench --case keepalive --load wrk,fortio --out bench/results/tmp/fortio $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: build ## A glance of half a minute: same host, 32 connections.
	@scripts/install-deps bench
	go run ./bench --topology same --case keepalive --connections 32 --rounds 2 --duration 1s

##@ Help

.PHONY: help
help: ## This list.
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } \
		/^[a-zA-Z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
