package store

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"
)

// exampleKeys returns keys of every keyspace, and the length of the prefix of each.
func exampleKeys() map[string]int {
	keys := map[string]int{"": 0, "k": 1, "t": 1, "x\x00": 2, "t\x00\x00": 3, "x\x00\x00\x01": 4}
	add := func(prefix int, key []byte) { keys[string(key)] = prefix }
	whole := func(key []byte) { add(len(key), key) }
	for _, name := range metaNames {
		whole(metaKey(name))
	}
	for _, n := range []uint64{0, 1, 0xff, 1 << 32, 1<<64 - 256, 1<<64 - 1} {
		whole(documentKey(n))
		for _, id := range []uint64{0, 1, 1<<64 - 1} {
			add(9, keyKey(n, id))
			add(11, liveKey(evenKeyspace, n, id))
			add(11, liveKey(oddKeyspace, n, id))
		}
		for _, keyspace := range []byte{evenKeyspace, packedKeyspace, oddKeyspace} {
			for _, table := range []int{0, 1, 255, 256, removedTable} {
				whole(tableKey(keyspace, table, n))
			}
		}
	}
	for _, keyspace := range []byte{directoryKeyspace, filterKeyspace} {
		for _, table := range []int{0, 1, KeyFilterTable} {
			whole(chunkKey(keyspace, table, 1<<32-1))
		}
	}
	return keys
}

func TestSplit(t *testing.T) {
	for key, want := range exampleKeys() {
		if got := splitKey([]byte(key)); got != want {
			t.Errorf("Split(%x) = %d, want %d", key, got, want)
		}
	}
}

// TestCheckComparer runs Pebble's own check. It gives no suffixes: with suffixes the check demands
// that a key without its first bytes splits at the same place. Pebble needs that for synthetic
// prefixes only, which this package does not use. TestComparer checks suffixes.
func TestCheckComparer(t *testing.T) {
	prefixes := map[string]bool{}
	for key, n := range exampleKeys() {
		prefixes[key[:n]] = true
	}
	var all [][]byte
	for prefix := range prefixes {
		all = append(all, []byte(prefix))
	}
	if err := pebble.CheckComparer(comparer, all, nil); err != nil {
		t.Error(err)
	}
}

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

// TestComparer checks Pebble's requirements of a Comparer on pairs of random keys.
func TestComparer(t *testing.T) {
	c := comparer
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
		for _, prefix := range [][]byte{aPrefix, bPrefix} {
			if n := c.Split(prefix); n != len(prefix) {
				t.Fatalf("prefix %x splits at %d", prefix, n)
			}
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

func TestImmediateSuccessor(t *testing.T) {
	const ff = "\xff\xff\xff\xff\xff\xff\xff"
	for prefix, want := range map[string]string{
		"":                        "\x00",
		"d\x01":                   "d\x01\x00",
		"k\x01":                   "k\x01\x00",
		"k12345678":               "k12345679",
		"k1234567\xff":            "k1234568",
		"k" + ff + "\xff":         "l",
		"t\x00\x00" + ff + "\x00": "t\x00\x00" + ff + "\x01",
		"t\x00\x00" + ff + "\xff": "t\x00\x01",
		"x\x00\x00\x01" + ff:      "x\x00\x00\x02",
		"u\x00\x00" + ff + "\xff": "u\x00\x00" + ff + "\xff\x00",
	} {
		if got := string(appendSuccessor([]byte("before"), []byte(prefix))); got != "before"+want {
			t.Errorf("successor of %x: %x, want %x", prefix, got, want)
		}
	}
}
