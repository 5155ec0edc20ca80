package store

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"
)

// randomKey draws a key of any keyspace, of which the prefix may be incomplete.
func randomKey(t *rapid.T, name string) []byte {
	first := rapid.SampledFrom([]string{"", "d", "k", "l", "t", "t\x00", "t\x00\x00", "t\x00\x01",
		"u\x00\x00", "x\x00\x00", "x\xff\xff", "\xff"}).Draw(t, name)
	rest := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 1, 0xfe, 0xff, 0xff}), 0,
		20).Draw(t, name+" rest")
	return append([]byte(first), rest...)
}

// changedKey draws a key that is close to another one.
func changedKey(t *rapid.T, key []byte) []byte {
	key = bytes.Clone(key[:rapid.IntRange(0, len(key)).Draw(t, "common bytes")])
	key = append(key, rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), 0, 3).Draw(t,
		"changed bytes")...)
	if i := rapid.IntRange(-1, len(key)-1).Draw(t, "changed at"); i >= 0 {
		key[i] += byte(rapid.SampledFrom([]int{1, -1}).Draw(t, "changed by"))
	}
	return key
}

// TestComparer checks Pebble's requirements of a Comparer on pairs of random keys. Pebble's own
// check gets no suffixes: with suffixes it demands that a key without its first bytes splits at the
// same place. Pebble needs that for synthetic prefixes only, which this package does not use.
func TestComparer(t *testing.T) {
	c := comparer
	if next := c.ImmediateSuccessor(nil, []byte("k1234567\xfe")); string(next) != "k1234567\xff" {
		t.Errorf("the successor of a prefix that ends in fe is %x", next)
	}
	rapid.Check(t, func(t *rapid.T) {
		a := randomKey(t, "a")
		var b []byte
		if rapid.Bool().Draw(t, "close") {
			b = changedKey(t, a)
		} else {
			b = randomKey(t, "b")
		}
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		order := bytes.Compare(a, b)
		if got := c.Compare(a, b); got != order || c.Compare(b, a) != -order ||
			c.Equal(a, b) != (order == 0) {
			t.Fatalf("Compare(%x, %x) = %d, Equal %t", a, b, got, c.Equal(a, b))
		}
		if x, y := c.AbbreviatedKey(a), c.AbbreviatedKey(b); x > y {
			t.Fatalf("AbbreviatedKey(%x) = %x, AbbreviatedKey(%x) = %x", a, x, b, y)
		}
		aPrefix, bPrefix := c.Split.Prefix(a), c.Split.Prefix(b)
		if err := pebble.CheckComparer(c, [][]byte{aPrefix, bPrefix}, nil); err != nil {
			t.Fatal(err)
		}
		prefixOrder := c.Compare(aPrefix, bPrefix)
		if prefixOrder > 0 || prefixOrder < 0 && order == 0 {
			t.Fatalf("prefixes %x and %x of %x and %x", aPrefix, bPrefix, a, b)
		}
		if prefixOrder == 0 {
			aSuffix, bSuffix := a[len(aPrefix):], b[len(bPrefix):]
			if c.ComparePointSuffixes(aSuffix, bSuffix) != order ||
				c.CompareRangeSuffixes(aSuffix, bSuffix) != order {
				t.Fatalf("suffixes of %x and %x", a, b)
			}
		}

		dst := []byte("before")
		next := c.ImmediateSuccessor(dst, aPrefix)[len(dst):]
		if c.Compare(aPrefix, next) >= 0 || c.Split(next) != len(next) {
			t.Fatalf("ImmediateSuccessor(%x) = %x", aPrefix, next)
		}
		if prefixOrder < 0 && c.Compare(bPrefix, next) < 0 {
			t.Fatalf("ImmediateSuccessor(%x) = %x, and %x is between them", aPrefix, next, bPrefix)
		}
		if order < 0 && len(a) > 0 { // Pebble asks for separators of keys that are not empty
			if key := c.Separator(dst, a, b)[len(dst):]; c.Compare(a, key) > 0 ||
				c.Compare(key, b) >= 0 {
				t.Fatalf("Separator(%x, %x) = %x", a, b, key)
			}
		}
		if key := c.Successor(dst, a)[len(dst):]; c.Compare(a, key) > 0 {
			t.Fatalf("Successor(%x) = %x", a, key)
		}
	})
}
