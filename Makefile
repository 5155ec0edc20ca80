.PHONY: help test short lint race fuzz modules bench docs ci

help:
	@sed -n 's/^\([a-z]*\): ## /\1\t/p' Makefile

test: ## all tests of the root module (2 min on 2 cores, as all times)
	go test ./...

short: ## the same tests with less work (1 min)
	go test -short ./...

lint: ## gofmt, go mod tidy, go vet and staticcheck of all modules (3 min)
	.ci/run lint platforms

race: ## the race detector, on all packages that start goroutines (5 min)
	.ci/run race

fuzz: ## all fuzz targets, FUZZTIME each (1 min with 1s, the default)
	.ci/run fuzz

modules: ## tests of the nested modules; they start redis-server and chromium (2 min)
	.ci/run modules

bench: ## the figures of README.md for 10 million fingerprints (4 min)
	go run ./cmd/neardup bench --documents 10e6
	go run ./cmd/neardup bench --documents 10e6 --fingerprints

docs: ## generated reference pages (10 s)
	go test ./cmd/neardup -run TestReference -update
	go test ./cmd/neardup/internal/server -run HTTPReference -update

ci: ## everything that a pull request has to pass (13 min)
	.ci/run
