// Package extsort sorts fixed-size records, more of them than fit in memory.
//
// A Sorter gives back exactly the records that were added, ascending by their
// first word; records whose first words are equal keep the order in which they
// were added. Its buffers stay within Options.MemoryBytes whatever the values
// are: skewed and equal ones too.
//
// It distributes first and sorts later. Add moves each record to one of 256
// buckets by its top 8 bits; buckets are lists of small chunks from one pool,
// and when the pool is used up all of them are appended to a spill file, one
// extent a bucket. Sorted loads bucket after bucket and sorts each by radix in
// two goroutines ahead of the consumer. A bucket that is larger than a sort
// buffer is distributed again by the highest bits in which its records differ,
// or, when their first words are all equal, passed on as it is. So the work is
// linear in the number of records: spilled records are written and read once,
// and once more for each time that their bucket was too large, at most 8 times.
//
// Spill files are private to the process that wrote them: native byte order, no
// checksum, never synced; on disk nobody else can read them. A process that is killed leaves them behind; their
// names match SpillPattern.
package extsort
