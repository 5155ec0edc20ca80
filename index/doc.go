// Package index is a persistent index of 64-bit fingerprints that finds every
// stored one within k bits of another (Manku, Jain and Das Sarma, "Detecting
// Near-Duplicates for Web Crawling", WWW 2007), and tells a crawler of each page
// whether it has stored one like it already.
//
// What it guarantees:
//
//   - A query returns exactly the stored documents within the distance, as
//     comparing with each of them would.
//   - With Sync, the default Durability, whatever a call has acknowledged survives
//     a crash, and no document is ever half there.
//   - Of racing near-duplicates, CheckAndAdd admits one.
//   - An index is never opened under another k, plan, format or analyzer than it
//     was made with.
//
// An Index is safe for concurrent use. Close waits for the calls under way.
package index
