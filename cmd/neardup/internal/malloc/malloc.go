// Package malloc sets the allocator of the C library, where it is linked in, to one arena.
//
// Pebble takes its buffers from it. It has an arena for every few threads and keeps in each
// what was freed there: under many goroutines the process would grow to several times what is
// in use. It must be told before there are threads, so importing the package does it.
package malloc
