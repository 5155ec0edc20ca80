// Package bench measures the index on the machine at hand, against the paper's
// tables held in memory as sorted arrays (Manku, Jain and Das Sarma, "Detecting
// Near-Duplicates for Web Crawling", WWW 2007, section 3), in the same run and in
// turns, so that what else the machine does falls on both.
//
// No figure of a query is given before the answers were found to be those of
// comparing with every stored fingerprint; ErrWrongAnswer is what Run returns when
// they are not. All data comes from a seed and is the same on every machine.
package bench
