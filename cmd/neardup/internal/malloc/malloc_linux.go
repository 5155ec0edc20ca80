//go:build cgo && linux

package malloc

/*
#include <malloc.h>

__attribute__((constructor)) static void oneArena(void) {
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
}
*/
import "C"
