//go:build race

package main

// raceEnabled: the race detector takes much memory, address space and time.
const raceEnabled = true
