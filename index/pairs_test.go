package index

import (
	"context"
	"errors"
	"testing"

	"github.com/neardup/neardup/internal/join"
	"github.com/neardup/neardup/internal/match"
)

// TestJoinRule: what a join is not told is as the index has it.
func TestJoinRule(t *testing.T) {
	x := openMem(t, Options{MaxDistance: 5, MaxShingleDistance: 20})
	for o, want := range map[*join.Options]match.Rule{
		{}: {MaxDistance: 5, MaxShingleDistance: 20, ShortAllowance: match.ShortAllowance, MaxLengthRatio: match.MaxLengthRatio},
		{MaxDistance: Exact, MaxShingleDistance: -1, ShortAllowance: 7}:                   {MaxDistance: 0, MaxShingleDistance: -1, ShortAllowance: 7, MaxLengthRatio: match.MaxLengthRatio},
		{MaxDistance: 64, MaxShingleDistance: 30, ShortAllowance: -1, MaxLengthRatio: -1}: {MaxDistance: 64, MaxShingleDistance: 30, ShortAllowance: 0, MaxLengthRatio: -1},
	} {
		if got, err := joinRule(x.rule(x.Plan()), *o); got != want || err != nil {
			t.Errorf("%+v: %+v, want %+v: %v", o, got, want, err)
		}
	}
}

func TestPairsAndClustersOfAnIndex(t *testing.T) {
	ctx := context.Background()
	x := openMem(t, Options{MaxDistance: 2, KeepDuplicates: true})
	must(t, x.Add(ctx, Document{Fingerprint: 1}, Document{Fingerprint: 1}, Document{Fingerprint: 3, Key: "three"}, Document{Fingerprint: 7 << 60}))
	pairs := 0
	for p, err := range x.Pairs(ctx, join.Options{}) {
		if pairs++; err != nil || p.First.ID != 1 || p.First.Added.IsZero() || p.Second.ID != 1 && p.Second.Key != "three" {
			t.Errorf("%+v, %v", p, err)
		}
	}
	clusters := 0
	for c, err := range x.Clusters(ctx, join.Options{}) {
		if clusters++; err != nil || len(c.Members) != 2 || c.Documents() != 3 || c.Members[0].ID != 1 || c.Members[1].Key != "three" {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if pairs != 2 || clusters != 1 {
		t.Errorf("%d pairs and %d clusters", pairs, clusters)
	}
	for _, c := range []struct {
		o    join.Options
		want error
	}{{join.Options{MaxDistance: 65}, ErrDistance}, {join.Options{MaxDistance: -2}, ErrDistance}, {join.Options{MaxLengthRatio: 0.5}, match.ErrRatio}} {
		for _, err := range x.Pairs(ctx, c.o) {
			if !errors.Is(err, c.want) {
				t.Errorf("%+v: %v", c.o, err)
			}
		}
	}
}
