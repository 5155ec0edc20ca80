//go:build race

package fingerprint

// The race detector makes sync.Pool drop items at random.
const raceEnabled = true
