# One set of flags for every go command: another set compiles Caddy again, which takes minutes. Without the tables of
# debuggers it compiles and links a seventh faster; stack traces and profiles do not need them.
export GOFLAGS := -trimpath -buildvcs=false -tags=nobadger,nomysql,nopgx -gcflags=all=-dwarf=false -ldflags=-s

# What is only tried is compiled without inlining, which takes a quarter less time, but for the standard library, whose
# cryptography would be slow.
TRIED := '-gcflags=all=-dwarf=false -l' -gcflags=std=-dwarf=false
quick check test: export GOFLAGS += $(TRIED)

# The compiler spends a fifth of its time on collecting garbage that fits into memory well.
GO := GOGC=400 go

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
TOOLS       := .bin/lint .bin/format

export GATEHOUSE_BIN := $(CURDIR)/bin/gatehouse

.PHONY: help run cluster build release docs demo quick check test nightly supply conformance bench proof faults golden install

help: ## Lists the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

run: demo ## Serves Caddyfile.example on localhost and prints what to look at
	@./scripts/run.sh

cluster: demo ## Serves Caddyfile.example by two nodes behind HAProxy on one PostgreSQL, and prints what to kill
	@./scripts/cluster.sh

demo: # With the profile, or in the module of a build, Caddy would be compiled another time than for the tests
	@$(GO) build -o bin/gatehouse ./cmd/gatehouse

build: ## Builds bin/gatehouse, a Caddy with the plugins in xcaddy.json, and its bill of materials
	@$(GO) run ./internal/build -pgo internal/build/gatehouse.pgo -o bin/gatehouse -sbom bin/gatehouse.cdx.json

release: ## Makes in dist what people install, of the commit and VERSION=v0.1.0: archives, packages, an image, checksums signed by KEY=file
	@cd release && $(GO) run . -version "$(VERSION)" $(if $(KEY),-key "$(abspath $(KEY))")

docs: ## Builds the documentation site in site/dist; a link that leads nowhere fails it
	cd site && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && node build.mjs

quick: $(TOOLS) golden ## Formats, makes the generated documents again and looks at the rules of the tree: before every push
	@.bin/format
	@go run ./internal/testrun rules

check: $(TOOLS) ## Format, lint and the unit tests, with every transaction run twice: before every commit
	@go run ./internal/testrun format lint unit modules

test: ## What a change can break: check, end to end in a real browser, races and programs of others that it is about, a short round of faults
	@$(MAKE) --no-print-directory -j4 "GOFLAGS=$$GOFLAGS" install $(TOOLS) demo
	@go run ./internal/testrun build,format e2e,lint,bench,modules faults unit-race

nightly: install $(TOOLS) .bin/golangci-lint ## What takes long: races everywhere, every interop suite, dependencies, all linters, releases made and installed, the Helm chart, the documentation site, the guided build, faults in full
	@GATEHOUSE_MODELS=100 GATEHOUSE_PAGES=all go run ./internal/testrun build race-all,modules,supply,golangci e2e-all,bench-all,dist,chart,site,apps
	$(MAKE) build faults conformance

supply: ## Looks at the dependencies: their sums, known weaknesses, the bill of materials; once after each change of go.mod
	@go run ./internal/testrun supply

conformance: ## The OpenID Foundation's checks of a provider, a line for each module
	@./scripts/conformance.sh

bench: build ## Benchmarks of the packages, then the built binary under load; its profile guides the next build
	go test -run='^$$' -bench=. -benchmem -benchtime=200ms ./...
	cd bench && go run . -pgo ../internal/build/gatehouse.pgo
	go test -count=1 -timeout=60m -v -run='^TestScale$$' ./admin/console -persons=1000000 -events=1000000

proof: build ## Runs what is claimed and writes docs/reports/DATE-*.md: conformance, attacks, faults, load; WHAT="conformance peers" runs some
	@./scripts/install.sh faults
	@go build -o bin/testidp ./internal/testidp
	@./scripts/proof.sh $(WHAT)

faults: build ## Kills, fills, freezes and corrupts the built binary under load, compares answers from memory and explanations with the truth, mutates SAML answers, puts every XSS payload in every field
	@./scripts/install.sh faults
	GATEHOUSE_ANSWERS=1000000 go test -count=1 -timeout=60m -v ./internal/depcache/modeltest
	GATEHOUSE_GATEWAYS=1000000 go test -count=1 -timeout=60m -run='^TestOneDecision' ./caddymodule/forwardauth >/dev/null
	GATEHOUSE_MUTATIONS=10000 go test -count=1 -run='^Test(Mutations|ArtifactMutations|Costs|CiphertextsTellNothing)$$' -v ./idp/saml ./idp/saml/samlidp
	GATEHOUSE_REHEARSALS=100000 go test -count=1 -run='^TestExplainedAsLive$$' -v ./caddymodule/protect
	GATEHOUSE_CALLS=1000000 go test -count=1 -run='^TestVerifyFindsOneLine$$' -v ./internal/calllog
	go test -count=1 -run='^TestManySignIns' -v ./idp/ldap -sign-ins=10000
	cd e2e && go test -count=1 -timeout=40m -run='^TestXSS' -v . -xss
	cd faults && go test -count=1 -timeout=180m -v ./...

golden: ## Rewrites generated documents and the expected output of tests
	@scripts/golden.sh

install: ## Installs with apt and npm what the tests need and this machine lacks
	@./scripts/install.sh

.bin/%: tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
	@mkdir -p .bin
	@cd tools && $(GO) build -o ../$@ ./$*

.bin/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p .bin
	cd tools && $(GO) build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
