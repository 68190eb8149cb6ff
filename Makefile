# One set of flags for every go command: another set compiles Caddy again, which takes minutes.
export GOFLAGS := -trimpath -buildvcs=false -tags=nobadger,nomysql,nopgx

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MODULES     := . $(patsubst %/go.mod,%,$(wildcard e2e/go.mod faults/go.mod bench/go.mod))
LINT        := $(CURDIR)/.bin/golangci-lint

export GATEHOUSE_BIN := $(CURDIR)/bin/gatehouse

.PHONY: help run cluster build test check conformance bench faults golden install

help: ## Lists the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

run: build ## Serves Caddyfile.example on localhost and prints what to look at
	@./scripts/run.sh

cluster: build ## Serves Caddyfile.example by two nodes behind HAProxy on one PostgreSQL, and prints what to kill
	@./scripts/cluster.sh

build: ## Builds bin/gatehouse, a Caddy with the plugins in xcaddy.json, and its bill of materials
	@go run ./internal/build -pgo internal/build/gatehouse.pgo -o bin/gatehouse -sbom bin/gatehouse.cdx.json

test: install build check ## Everything: install, build, check, end to end in a real browser, a short round of faults and benchmarks
	go build -o bin/standins ./internal/standins
	cd e2e && go test -count=1 -timeout=40m ./...
	cd faults && go test -count=1 -short -timeout=15m ./...
	cd bench && go test -count=1 -timeout=5m ./...

check: $(LINT) ## Format, vet, lint and the unit tests with the race detector
	@for m in $(MODULES); do echo "vet and lint $$m"; (cd $$m && go vet ./... && $(LINT) run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...); done
	go test -race -timeout=25m ./...

conformance: ## The OpenID Foundation's checks of a provider, a line for each module
	@./scripts/conformance.sh

bench: build ## Benchmarks of the packages, then the built binary under load; its profile guides the next build
	go test -run='^$$' -bench=. -benchmem -benchtime=200ms ./...
	cd bench && go run . -pgo ../internal/build/gatehouse.pgo

faults: build ## Kills, fills, freezes and corrupts the built binary under load, compares answers from memory and explanations with the truth, mutates SAML answers, puts every XSS payload in every field
	GATEHOUSE_ANSWERS=1000000 go test -count=1 -timeout=60m -v ./internal/answers/modeltest
	GATEHOUSE_GATEWAYS=1000000 go test -count=1 -timeout=60m -run='^TestOneDecision' ./caddymodule/forwardauth >/dev/null
	GATEHOUSE_MUTATIONS=10000 go test -count=1 -run='^Test(Mutations|ArtifactMutations|Costs|CiphertextsTellNothing)$$' -v ./idp/saml ./idp/saml/samlidp
	GATEHOUSE_REHEARSALS=100000 go test -count=1 -run='^TestExplainedAsLive$$' -v ./caddymodule/protect
	go test -count=1 -run='^TestManySignIns' -v ./idp/ldap -sign-ins=10000
	cd e2e && go test -count=1 -timeout=40m -run='^TestXSS' -v . -xss
	cd faults && go test -count=1 -timeout=180m -v ./...

golden: ## Rewrites generated documents and the expected output of tests
	@scripts/golden.sh

install: ## Installs with apt and npm what the tests need and this machine lacks
	@./scripts/install.sh

$(LINT): tools/go.mod tools/go.sum
	@mkdir -p .bin
	cd tools && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
