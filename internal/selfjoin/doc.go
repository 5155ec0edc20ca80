// Package selfjoin finds every pair of near-duplicates within one collection of
// 64-bit fingerprints, and clusters of them.
//
// Every pair of distinct fingerprints within the distance is found exactly once,
// whatever the collection looks like; equal fingerprints are one node with a count.
//
// The method is the one of the paper's tables (Manku, Jain and Das Sarma, WWW 2007,
// section 3.1) without the tables. Of two fingerprints that differ in at most k of
// their bits, at least one of k+1 blocks of those bits is equal. So the collection is
// grouped by the first block, then by the second, and so on; within a group of the
// block at place i, pairs that also agree in an earlier block are left to that one,
// so the others differ in i of the k bits already and need only k-i+1 blocks for the
// next step. Groups are split in this way until comparing all of their pairs is
// cheaper. Each group looks at the bits in which its own members differ, so clusters
// and common prefixes are split as well as random bits.
package selfjoin
