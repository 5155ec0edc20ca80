package index

import (
	"testing"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/match"
)

// TestRuleOfTheOptions tests the rule of a join, which depends on Options and JoinOptions. The
// tests with the model check the rule of verdicts and queries.
func TestRuleOfTheOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		join JoinOptions
		want match.Rule // of the join
	}{
		{Options{}, JoinOptions{}, match.Default(3)},
		{Options{MaxDistance: Exact, MaxShingleDistance: 5, ShortAllowance: 9, MaxLengthRatio: 2},
			JoinOptions{}, match.Rule{MaxDistance: 0, MaxShingleDistance: 5, ShortAllowance: 9,
				MaxLengthRatio: 2}},
		{Options{MaxDistance: 6, MaxShingleDistance: -1, ShortAllowance: -1, MaxLengthRatio: -1},
			JoinOptions{}, match.Rule{MaxDistance: 6, MaxShingleDistance: -1, MaxLengthRatio: -1}},
		{Options{MaxDistance: 5, MaxShingleDistance: 20},
			JoinOptions{MaxDistance: Exact, MaxShingleDistance: -1, ShortAllowance: 7},
			match.Rule{MaxDistance: 0, MaxShingleDistance: -1, ShortAllowance: 7,
				MaxLengthRatio: match.MaxLengthRatio}},
		{Options{MaxDistance: 5, MaxShingleDistance: 20},
			JoinOptions{MaxDistance: 64, MaxShingleDistance: 30, ShortAllowance: -1,
				MaxLengthRatio: -1},
			match.Rule{MaxDistance: 64, MaxShingleDistance: 30, MaxLengthRatio: -1}},
	} {
		x := openMem(t, c.o)
		if got, err := joinRule(x.rule, c.join); got != c.want || err != nil {
			t.Errorf("%+v: %+v, not %+v: %v", c, got, c.want, err)
		}
	}
}

// TestEqualStoredFingerprints stores a document without a scope. Its stored fingerprint equals that
// of a page in a scope. The two must not match.
func TestEqualStoredFingerprints(t *testing.T) {
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
