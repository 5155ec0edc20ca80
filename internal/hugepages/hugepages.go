// Package hugepages asks the system to map memory in large pages. That is for what is
// read all over: with small pages, most of the time of a read goes into finding them.
// It is a hint; without it everything works the same.
package hugepages
