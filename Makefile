# Every target's line after ## is its help. `make` alone prints them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO        ?= go
BIN       := $(CURDIR)/.bin
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -X github.com/musterhq/muster/cmd/internal/buildinfo.version=$(VERSION)
FUZZTIME  ?= 5m
# golangci-lint is fetched into .bin, not into go.mod: it would bring hundreds of modules along.
GOLANGCI  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build ./muster
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o muster ./cmd/muster

.PHONY: run
run: build ## Build and serve on 127.0.0.1 (NATS 4222, HTTP 8080), data in ./muster-data
	./muster serve

.PHONY: test
test: vet ## Vet, then every test under the race detector
	$(GO) test -race -timeout 40m ./...
	@[ -w /dev/fuse ] || echo "NOTE: the power-cut tests DID NOT RUN: they need /dev/fuse and root, and this machine gives neither"
	@command -v promtool >/dev/null || echo "NOTE: the alert rules WERE NOT TRIED: promtool is not installed (it comes with Prometheus)"

.PHONY: short
short: ## The quick tests only, without the race detector
	$(GO) test -short ./...

.PHONY: crash
crash: ## Kill -9 and ends in order under load, 200 rounds each (make test does 25 and 50)
	MUSTER_CRASH_ROUNDS=200 MUSTER_SHUTDOWN_ROUNDS=200 $(GO) test -count=1 -timeout 60m -run 'Kill9|ShutdownUnderLoad' -v ./cmd/internal/e2e

.PHONY: powercut
powercut: ## Cut the power under load: writes that were not synced are thrown away (needs FUSE)
	$(GO) test -count=1 -timeout 30m -run 'PowerCut' -v ./eventlog/natslog ./cmd/internal/e2e

.PHONY: suite
suite: ## Watermill's universal suite, full report, under the race detector (not within the suite itself: it has a race)
	$(GO) test -race -count=1 -gcflags='github.com/ThreeDotsLabs/watermill/pubsub/tests=-race=false' -run WatermillSuite -v ./bus/pubsub

.PHONY: random
random: ## A million random trace lines for each machine (make test does 20 000)
	$(GO) test -count=1 -timeout 60m -run 'RandomTraces' -v ./domain/trace -lines 1000000

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (5m) each
	@grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do \
	  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$$file" | awk '{print $$2}' | while read -r name; do \
	    echo "== $$name ($$(dirname "$$file"))"; \
	    $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")"; \
	  done; \
	done

.PHONY: bench
bench: build ## Benchmarks of the packages, then of appends through a whole server
	$(GO) test -run '^$$' -bench . -benchmem ./domain/... ./eventlog/... ./projections/...
	./muster bench append

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w $$($(GO) list -f '{{.Dir}}' ./...)

.PHONY: lint
lint: $(BIN)/golangci-lint ## golangci-lint with .golangci.yaml (the first run builds it, which takes long)
	$(BIN)/golangci-lint run

$(BIN)/golangci-lint:
	GOBIN=$(BIN) $(GO) install $(GOLANGCI)

.PHONY: verify
verify: vet ## Module hashes, formatting, generated files and the shape of the project
	$(GO) mod verify
	@unformatted="$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...))"; \
	  if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted" >&2; exit 1; fi
	$(GO) test -count=1 ./cmd/internal/archtest ./cmd/internal/config

.PHONY: docker
docker: ## Build the container image muster:$(VERSION)
	docker build --build-arg VERSION=$(VERSION) -t muster:$(VERSION) -t muster:latest .

.PHONY: clean
clean: ## Remove what a build leaves behind (never ./muster-data)
	rm -rf muster dist $(BIN) coverage.out
	find . -name '*.test' -o -name '*.prof' | xargs -r rm -f
