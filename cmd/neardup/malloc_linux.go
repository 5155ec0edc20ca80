//go:build cgo && linux

package main

/*
#include <malloc.h>

static void oneArena(void) {
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
}
*/
import "C"

// Pebble takes its buffers from the C library, whose allocator has an arena for each
// few threads and keeps in each what was freed there: under many goroutines the process
// grows to several times what is in use.
func init() { C.oneArena() }
