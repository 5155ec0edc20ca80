package merger

import (
	"errors"
	"testing"

	"github.com/neardup/neardup/internal/duplicates"
	"github.com/neardup/neardup/internal/fault"
)

// TestMerge compares the sums of the merger, for counts in any order, with the definition.
func TestMerge(t *testing.T) {
	counts := []duplicates.Count{
		{Checks: 1}, {Checks: 3, Texts: duplicates.TextOf(5)},
		{Checks: 200, Texts: duplicates.TextOf(5) | duplicates.TextOf(63)},
		{Checks: 1, Texts: duplicates.TextOf(0)},
	}
	var want duplicates.Count
	for _, c := range counts {
		want = duplicates.Count{Checks: want.Checks + c.Checks, Texts: want.Texts | c.Texts}
	}
	for first := range counts {
		m, err := Counts.Merge(nil, counts[first].Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range counts {
			switch {
			case i < first:
				err = m.MergeOlder(c.Append(nil))
			case i > first:
				err = m.MergeNewer(c.Append(nil))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		value, _, err := m.Finish(true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := duplicates.Decode(value); err != nil || got != want {
			t.Errorf("from number %d on: %+v, %v; want %+v", first, got, err, want)
		}
	}
	m, _ := Counts.Merge(nil, counts[0].Append(nil))
	if err := m.MergeNewer([]byte{1, 2}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a value that is no count: %v", err)
	}
	if _, err := Counts.Merge(nil, nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("an empty value: %v", err)
	}
}
