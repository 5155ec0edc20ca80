package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
)

// TestRuleOfTheOptions tests which rule of package match an index uses, and which options it
// refuses. The model checks verdicts and queries.
func TestRuleOfTheOptions(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		o    Options
		want match.Rule
	}{
		{Options{}, match.Default(3)},
		{Options{MaxDistance: Exact, MaxShingleDistance: 5, ShortAllowance: 9, MaxLengthRatio: 2},
			match.Rule{MaxDistance: 0, MaxShingleDistance: 5, ShortAllowance: 9,
				MaxLengthRatio: 2}},
		{Options{MaxDistance: 6, MaxShingleDistance: -1, ShortAllowance: -1, MaxLengthRatio: -1},
			match.Rule{MaxDistance: 6, MaxShingleDistance: -1, MaxLengthRatio: -1}},
	} {
		x := openMem(t, c.o)
		if got := x.rule; got != c.want {
			t.Errorf("%+v: %+v, not %+v", c.o, got, c.want)
		}
	}
	for _, ratio := range []float64{0.5, math.NaN()} {
		if _, err := Open("other", &Options{FS: vfs.NewMem(), MaxLengthRatio: ratio}); !errors.Is(
			err, match.ErrRatio) {
			t.Errorf("open with %v: %v", ratio, err)
		}
	}
	x := openMem(t, Options{})
	for _, length := range []int{-1, match.MaxTokens + 1} {
		if err := x.Add(ctx, Document{Tokens: length}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

// TestScopesThatMeet stores a document that has the stored fingerprint of another scope. It must
// not match the documents of that scope.
func TestScopesThatMeet(t *testing.T) {
	x := openMem(t, Options{})
	page := Document{Fingerprint: 7, Scope: "s"}
	must(t, x.Add(t.Context(), Document{Fingerprint: fingerprint.Fingerprint(storedOf(&page))}))
	matches, err := x.Query(t.Context(), Query{Signature: page.Signature(), Scope: page.Scope})
	must(t, err)
	v, err := x.CheckAndAdd(t.Context(), page)
	must(t, err)
	if len(matches) > 0 || v.Status != New {
		t.Errorf("%+v, %v of %+v", matches, v.Status, v.Of)
	}
}

// TestVerdictNearestByID tests that the smallest ID is reported if several documents have the
// same distance.
func TestVerdictNearestByID(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{})
	must(t, x.Add(ctx, bareDocuments([]uint64{0b111, 0b1000, 0b1, 0b10, 0b1})...))
	v, err := x.CheckAndAdd(ctx, Document{Fingerprint: 0})
	if err != nil || v.Status != Duplicate || v.Of.ID != 2 || v.Of.Distance != 1 ||
		v.Document.ID != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if got := fmt.Sprint(Status(0), New, Duplicate, Known,
		Status(9)); got != "no verdict new duplicate known status 9" {
		t.Error(got)
	}
}
