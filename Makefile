# pace-node: every target runs as an ordinary user without root, except where its line says otherwise.
# `make` alone lists them.

SHELL        := /bin/bash
.SHELLFLAGS  := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export CGO_ENABLED ?= 0
VERSION      ?= $(shell git describe --tags --always --dirty 2>/dev/null | sed 's/^v//' || echo 0.0.0)
LDFLAGS      := -s -w -X pace-node/internal/version.Version=$(VERSION)
PLATFORMS    := linux-amd64 linux-arm64 windows-amd64 windows-arm64 darwin-amd64 darwin-arm64
RUN          := go run ./test/runner
# The longest package is begun first, or it would run on alone at the end.
ALL          := ./internal/node ./...
STATICCHECK  := build/tools/staticcheck

.PHONY: help build $(PLATFORMS) test race lint vet e2e screenshots demo demo-check bench bench-provision sim sim-nodes fuzz figures docs clean vuln packages package-windows package-macos lint-packages test-packages

help: ## list the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sort | awk 'BEGIN {FS = ":.*## "}; {printf "  make %-15s %s\n", $$1, $$2}'

build/pace-node: $(shell find cmd internal platform -name '*.go' ! -name '*_test.go' -o -path '*/assets/*' -type f 2>/dev/null) go.mod go.sum
	@mkdir -p build
	go build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/pace-node
	@ln -sf pace-node build/pacectl

# The binary of a version that does not exist yet, whose fleets know one change more: rolling upgrades are tried with it.
build/pace-node-next: build/pace-node
	go build -trimpath -tags formatnext -ldflags '$(LDFLAGS)-next' -o $@ ./cmd/pace-node

build: $(PLATFORMS) ## the binary for linux, windows and darwin, amd64 and arm64, into build/

$(PLATFORMS):
	@mkdir -p build/$@
	GOOS=$(word 1,$(subst -, ,$@)) GOARCH=$(word 2,$(subst -, ,$@)) go build -trimpath -ldflags '$(LDFLAGS)' \
		-o build/$@/pace-node$(if $(findstring windows,$@),.exe) ./cmd/pace-node

test: ## every test that needs no root (what needs it is skipped by name)
	$(RUN) test $(ALL)

race: ## the same under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(RUN) test -race -timeout 30m $(ALL)

vet: ## go vet for every system
	for os in linux windows darwin; do for arch in amd64 arm64; do GOOS=$$os GOARCH=$$arch go vet ./...; done; done
	go vet -tags e2e ./test/...
	go vet -tags packages ./test/...
	cd installer && go vet ./...
	go vet -tags crashpoints ./cmd/... ./internal/...
	go vet -tags formatnext ./cmd/... ./internal/...

$(STATICCHECK): tools/go.mod
	@mkdir -p build/tools
	cd tools && go build -o ../$@ honnef.co/go/tools/cmd/staticcheck

lint: vet $(STATICCHECK) ## gofmt, vet for every system, staticcheck, go.mod tidy
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt wants: $$out"; exit 1; fi
	go mod tidy -diff
	printf '%s\n' 'linux: GOOS=linux' 'windows: GOOS=windows' 'darwin: GOOS=darwin' 'e2e: GOOS=linux -tags=e2e' \
		'packages: GOOS=linux -tags=packages' 'crashpoints: GOOS=linux -tags=crashpoints' | $(STATICCHECK) -matrix ./...

# axe-core, which judges whether a page can be used by everybody; the lock file holds its digest.
build/axe/axe.min.js: test/axe/package.json test/axe/package-lock.json
	@mkdir -p build/axe
	cp test/axe/package.json test/axe/package-lock.json build/axe/
	cd build/axe && npm ci --ignore-scripts --no-audit --no-fund
	cp build/axe/node_modules/axe-core/axe.min.js $@

e2e: build/pace-node build/pace-node-next build/axe/axe.min.js ## whole nodes as processes: in network namespaces (needs root, and dnsmasq and chromium; skipped by name without), the page in a browser (needs npm), and crashing at every point over loopback
	$(RUN) test -tags formatnext -run TestNextFormat ./internal/fleet
	$(RUN) test -tags e2e -p 1 -parallel 6 -timeout 25m ./test/e2e/... ./test/crash/...

screenshots: build/pace-node build/axe/axe.min.js ## pictures of the web page into docs/screenshots (needs root and chromium)
	@mkdir -p docs/screenshots
	PACE_SCREENSHOTS=$(CURDIR)/docs/screenshots go test -count=1 -tags e2e -run '^TestPageLooksRightEverywhere$$' ./test/e2e

# Built and then run: go run would make Ctrl-C, its proper end, an error.
demo: build/pace-node ## four nodes on this machine find one another, join and are provisioned; runs until Ctrl-C
	@go build -o build/tools/demo ./test/demo
	@build/tools/demo -binary build/pace-node

demo-check: build/pace-node ## the demo, each step asserted, ending by itself
	@go build -o build/tools/demo ./test/demo
	@build/tools/demo -binary build/pace-node -check

bench: ## every benchmark
	go test -run '^$$' -bench . -benchmem ./internal/...

# A seed that fails prints its story; SEED=n tells that one again. FIRST=n begins there; FOR=12m tells as many as that time allows.
SEEDS      ?= 200
HOURS      ?= 1
SEED       ?=
FIRST      ?=
FOR        ?=
RAFT_SEEDS ?= 3
sim: ## stories of whole fleets from SEEDS seeds of HOURS each, over the product's decisions and a model of the log, and from RAFT_SEEDS over real raft
	PACE_SIM_SEEDS=$(SEEDS) PACE_SIM_HOURS=$(HOURS) PACE_SIM_SEED=$(SEED) PACE_SIM_FIRST=$(FIRST) PACE_SIM_FOR=$(FOR) go test -count=1 -timeout 600m -run '^TestSimModel$$' -v ./internal/simfleet
	$(if $(SEED),,PACE_SIM_SEEDS=$(RAFT_SEEDS) go test -count=1 -timeout 60m -run '^TestSimStories$$' -v ./internal/node | grep -v level=)

NODE_SEEDS ?= 100
sim-nodes: ## whole nodes with real raft in virtual time, NODE_SEEDS times: the same stories, fifty powered on together, and other scenes
	PACE_SIM_SEEDS=$(NODE_SEEDS) PACE_SIM_SEED=$(SEED) go test -count=1 -timeout 60m -run '^TestSim' -v ./internal/node

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME
	$(RUN) fuzz -time $(FUZZTIME) ./internal/...
	go build -o build/tools/runner ./test/runner && cd installer && ../build/tools/runner fuzz -time $(FUZZTIME) ./internal/linuxpkg ./macpkg ./msipkg

figures: build/pace-node ## measure against the goals, and write docs/figures.md (fourteen minutes)
	go run ./test/figures -binary build/pace-node -out docs/figures.md

bench-provision: build/pace-node ## the provisioning queue over hundreds of real sessions: rates, memory, dead machines, failover, latency; into docs/figures.md (six minutes)
	go run ./test/figures -binary build/pace-node -only '^prov-' -out docs/figures.md

DOCS := ./internal/config ./internal/control ./internal/schema ./packaging/monitoring
docs: ## write the generated pages of docs/ again: flags, man page, metrics, conditions, schemas, alerts
	PACE_WRITE_DOCS=1 go test -count=1 -run '^TestDocs' $(DOCS)

packages: ## deb, rpm, msi and pkg for amd64 and arm64, bills of materials and SHA256SUMS into dist/ (built twice and compared)
	@mkdir -p build/tools && go build -o build/tools/runner ./test/runner
	cd installer && go vet ./... && ../build/tools/runner test ./... && go run ./cmd/mkpackages -out ../dist -twice
	$(MAKE) package-windows
	$(MAKE) package-macos

# Signed where SIGN_CERTIFICATE and SIGN_KEY (PEM files) are given; SIGN_TIMESTAMP is a time stamping service, and ends the comparison.
package-windows: ## Windows' packages into dist/ (wixl, msitools), with bills of materials, read back and compared
	cd installer && go run ./cmd/mkmsi -out ../dist $(if $(SIGN_CERTIFICATE),-certificate '$(abspath $(SIGN_CERTIFICATE))' -key '$(abspath $(SIGN_KEY))') \
		$(if $(SIGN_TIMESTAMP),-timestamp '$(SIGN_TIMESTAMP)',-twice)
	cd installer && go run ./cmd/mkmacpkg sums ../dist

# MACOS_PROGRAM is a universal program that somebody signed, packed in place of the one that is built here.
package-macos: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
package-macos: darwin-amd64 darwin-arm64 ## macOS's package into dist/, with bills of materials, read back and compared
	cd installer && go build -o ../build/tools/mkmacpkg ./cmd/mkmacpkg
	build/tools/mkmacpkg universal -o build/darwin-universal/pace-node build/darwin-amd64/pace-node build/darwin-arm64/pace-node
	rm -f dist/pace-node-*.pkg dist/pace-node_*_darwin_*.cdx.json
	for out in build/again.pkg 'dist/pace-node-$(VERSION).pkg'; do \
		build/tools/mkmacpkg package -o "$$out" -version '$(VERSION)' -binary '$(or $(MACOS_PROGRAM),build/darwin-universal/pace-node)'; done
	cmp build/again.pkg 'dist/pace-node-$(VERSION).pkg' && rm build/again.pkg
	for arch in amd64 arm64; do build/tools/mkmacpkg sbom -o 'dist/pace-node_$(VERSION)_darwin_'$$arch.cdx.json -version '$(VERSION)' build/darwin-$$arch/pace-node; done
	build/tools/mkmacpkg check 'dist/pace-node-$(VERSION).pkg'
	build/tools/mkmacpkg sums dist

lint-packages: ## lintian, rpmlint, shellcheck and systemd-analyze over what make packages built
	test/packages/lint.sh dist

test-packages: ## the packages in booted Debian systems with systemd, in namespaces of their own (needs root)
	test/packages/prepare.sh
	$(RUN) test -count=1 -tags packages -parallel 4 -timeout 30m ./test/packages

VULNDB ?= v0.0.0-20261105234957-e22db6528018
vuln: ## known vulnerabilities, by the database's module
	cd tools && go build -o ../build/tools/govulncheck golang.org/x/vuln/cmd/govulncheck && go mod download golang.org/x/vulndb@$(VULNDB)
	build/tools/govulncheck -db file://$$(go env GOMODCACHE)/golang.org/x/vulndb@$(VULNDB)/data/osv ./...

clean: ## remove what was built
	rm -rf build
