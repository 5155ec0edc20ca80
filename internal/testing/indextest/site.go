package indextest

import (
	"maps"
	"slices"
	"strings"

	"github.com/neardup/neardup/index"
)

// Count has the numbers of duplicates that an index counts for a document.
type Count struct {
	Checks uint64
	// different texts of the site, by the low bits of their digests
	Texts map[index.Document]bool
}

// count counts d as a duplicate of another document.
func (m *Model) count(d, of *index.Document) {
	if m.Counts == nil {
		return
	}
	c := m.Counts[of.ID]
	if c == nil {
		c = &Count{Texts: make(map[index.Document]bool)}
		m.Counts[of.ID] = c
	}
	c.Checks++
	if d.Digest != 0 && of.Digest != 0 && d.Digest != of.Digest && oneSite(d, of) {
		c.Texts[index.Document{Digest: d.Digest % 64}] = true
	}
}

// matching returns at least the first document that d is a duplicate of.
func (m *Model) matching(docs Documents, d *index.Document) []index.Match {
	if m.Rule.SiteTexts < 0 || m.Rule.MaxShingleDistance < 0 {
		return docs.Near(m.Rule, d, 1)
	}
	anything := m.Rule // m.Rule with only the limit k
	anything.MaxShingleDistance, anything.MaxLengthRatio = -1, -1
	near := docs.Near(anything, d, 0)
	var site []index.Match // the first 17 of the site among the nearest 64
	for _, n := range near[:min(len(near), 64)] {
		if ofSite(d, &n) && len(site) < 17 {
			site = append(site, n)
		}
	}
	return slices.DeleteFunc(near, func(n index.Match) bool {
		_, allowed := m.Rule.Match(d, &n.Document)
		switch {
		case !allowed:
			return true
		case !ofSite(d, &n), d.Digest != 0 && d.Digest == n.Digest:
			return false
		}
		var others []int
		for _, other := range site {
			if other.ID != n.ID && len(others) < 16 {
				others = append(others, farness(d, &other))
			}
		}
		if len(others) >= 2 {
			slices.Sort(others)
			return 2*farness(d, &n) > others[len(others)/2]
		}
		texts := make(map[index.Document]bool)
		for _, other := range site {
			if c := m.Counts[other.ID]; c != nil {
				maps.Copy(texts, c.Texts)
			}
		}
		if len(texts) < m.Rule.SiteTexts-1 {
			return false
		}
		changed := min(max(8, (d.Tokens+n.Tokens)/6), 16)
		bits := d.Shingles.Distance(n.Shingles)
		return (d.Tokens+n.Tokens)*bits > changed*(256-bits)
	})
}

func farness(d *index.Document, n *index.Match) int {
	return d.Fingerprint.Distance(n.Fingerprint) + d.Shingles.Distance(n.Shingles)
}

// ofSite reports whether n is on the site of d, and both have Shingles and a length.
func ofSite(d *index.Document, n *index.Match) bool {
	return oneSite(d, &n.Document) && !d.Shingles.IsZero() && !n.Shingles.IsZero() &&
		d.Tokens > 0 && n.Tokens > 0
}

// oneSite compares the hosts of keys such as http://host/path.
func oneSite(a, b *index.Document) bool {
	x, y := strings.Split(a.Key, "/"), strings.Split(b.Key, "/")
	return len(x) > 2 && len(y) > 2 && x[0] == "http:" && y[0] == "http:" && x[2] == y[2]
}
