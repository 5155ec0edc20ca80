//go:build cgo && linux

package main

// Pebble takes its buffers from the C library, whose allocator has an arena for every
// few threads and keeps in each what was freed there: under many goroutines the process
// would grow to several times what is in use. It must be told before there are threads.

/*
#include <malloc.h>

__attribute__((constructor)) static void oneArena(void) {
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
}
*/
import "C"
