// Package malloc limits the allocator of the C library to one arena, if the program links it.
//
// Pebble allocates its buffers from this allocator. By default, the allocator has an arena for
// every few threads and keeps freed memory in each. With many goroutines, the process would grow
// to several times the memory in use. The limit must be set before there are threads, so
// importing the package sets it.
package malloc
