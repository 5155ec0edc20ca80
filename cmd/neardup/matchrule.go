package main

// The rule by which dedup takes two documents for near-duplicates, unless it is told
// otherwise; docs/quality.md has the figures that chose it.
const (
	defaultK       = 3
	defaultShingle = 14
)
