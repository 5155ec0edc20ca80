// Package fingerprint turns text into a 64-bit simhash: Charikar's similarity
// hash ("Similarity estimation techniques from rounding algorithms", STOC 2002)
// as Manku, Jain and Das Sarma use it in section 2 of "Detecting
// Near-Duplicates for Web Crawling" (WWW 2007). Texts that share most of their
// weighted features get fingerprints that differ in few bits.
//
// The guarantee: a fingerprint depends on the text and the [Options] alone, not
// on the machine, the Go release or the run. Texts that differ only in case,
// Unicode normal form, width, compatibility forms, order of combining marks or
// invisible characters have equal fingerprints. [Analyzer.Name] changes whenever
// any fingerprint it gives would change, so fingerprints of the same name may be
// compared, and no others.
//
// [Analyzer] is the whole pipeline. A caller with features of its own (section 2 of the
// paper names stop words, stemming, phrases and weights by rarity) makes them from
// [Tokens] and uses [Simhash] or an [Accumulator]; the examples do it.
package fingerprint
