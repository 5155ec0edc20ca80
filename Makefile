.PHONY: help test short lint race fuzz modules bench docs ci

help:
	@sed -n 's/^\([a-z]*\): ## /\1\t/p' Makefile

test: ## all tests of the root module
	go test ./...

short: ## the same tests with less work
	go test -short ./...

lint: ## gofmt, go mod tidy, go vet and staticcheck of all modules
	.ci/run lint platforms

race: ## the race detector, on all packages that start goroutines
	.ci/run race

fuzz: ## all fuzz targets, FUZZTIME each
	.ci/run fuzz

modules: ## tests of the nested modules; they start redis-server and chromium
	.ci/run modules

bench: ## the figures of README.md for 10 million fingerprints
	go run ./cmd/neardup bench --documents 10e6
	go run ./cmd/neardup bench --documents 10e6 --fingerprints

docs: ## generated reference pages
	go test ./cmd/neardup -run TestReference -update

ci: ## everything that a pull request has to pass
	.ci/run
