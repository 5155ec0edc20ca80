package plan

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDesignsOfThePaper has the tables and prefixes of section 3.1.2 for k = 3.
// radiusPlans have fewer tables than Manku's, and probe the prefixes around their own.
var radiusPlans = []string{
	"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24~1",
	"k=3 0-63/32~1 32-63,0-31/32~1",
	"k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1",
	"k=2 0-63/12~2",
}

// numbered are the designs that have a number for a name.
var numbered = []string{"2", "3", "4", "10", "16", "20"}

func mustParse(t testing.TB, text string) *Plan {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustPlan(t testing.TB, design string, k int) *Plan {
	t.Helper()
	p, err := Named(design, k)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tablesFor(t testing.TB, design string, k int) *Plan {
	t.Helper()
	tables, err := tablesOf(design, k)
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{MaxDistance: k, Tables: tables}
}

func TestDesignsOfThePaper(t *testing.T) {
	for _, want := range []struct {
		design             string
		tables, least, top int
	}{
		{"20", 20, 31, 33},
		{"16", 16, 28, 28},
		{"10", 10, 25, 26},
		{"4", 4, 16, 16},
	} {
		p := mustPlan(t, want.design, 3)
		var prefixes []int
		for _, table := range p.Tables {
			prefixes = append(prefixes, table.Prefix)
		}
		if len(p.Tables) != want.tables || slices.Min(prefixes) != want.least || slices.Max(prefixes) != want.top {
			t.Errorf("design %s: %d tables, prefixes %v", want.design, len(p.Tables), prefixes)
		}
		if p.Probes() != want.tables {
			t.Errorf("design %s: %d probes", want.design, p.Probes())
		}
	}
	if got, want := mustPlan(t, "4", 3).String(), "k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16"; got != want {
		t.Errorf("Design4 is %q, docs/format.md has %q", got, want)
	}
}

func TestPlanProbesAndCandidates(t *testing.T) {
	for text, want := range map[string]struct {
		probes     int
		candidates float64 // of 2^32 fingerprints
	}{
		"k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16": {4, 4 << 16},
		radiusPlans[0]:          {27, 2<<12 + 25<<8},
		radiusPlans[1]:          {66, 66},
		radiusPlans[3]:          {1 + 12 + 66, 79 << 20},
		"k=0 0-63/64":           {1, 1. / (1 << 32)},
		"k=16 0-63/1~1":         {2, 1 << 32},
		"k=2 0-63/3~2":          {7, 7 << 29},
		"k=3 0-63/3~3":          {8, 1 << 32},
		"k=16 0-63/16~16":       {1 << 16, 1 << 32},
		"k=1 0-63/64~1":         {65, 65. / (1 << 32)},
		"k=4 0-63/64~4":         {1 + 64 + 2016 + 41664 + 635376, 679121. / (1 << 32)},
		"k=1 0-63/2 2-63,0-1/1": {2, 3 << 30},
	} {
		p := mustParse(t, text)
		if p.Probes() != want.probes || math.Abs(p.Estimate(1<<32, Costs{}, 0).Candidates/want.candidates-1) > 1e-12 {
			t.Errorf("%s: %d probes, %g candidates, not %v", text, p.Probes(), p.Estimate(1<<32, Costs{}, 0).Candidates, want)
		}
	}
}

// drawPlan draws tables that need not cover anything.
func drawPlan(t *rapid.T, k int) *Plan {
	p := &Plan{MaxDistance: k}
	for i := range rapid.IntRange(1, 8).Draw(t, "tables") {
		table := Table{Permutation: Permutation{{0, 63}}, Prefix: rapid.IntRange(1, 64).Draw(t, "prefix")}
		if i > 0 {
			table.Permutation = drawPermutation(t)
		}
		table.Radius = rapid.IntRange(0, min(k, table.Prefix, 3)).Draw(t, "radius")
		p.Tables = append(p.Tables, table)
		p.masks = append(p.masks, table.mask())
	}
	return p
}

func TestPlanReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, rapid.IntRange(0, 5).Draw(t, "k"))
		_, missed, _ := p.uncovered()
		back, err := Parse(p.String())
		if missed {
			if !errors.Is(err, ErrUnusable) {
				t.Fatalf("%v: %v", p, err)
			}
			return
		}
		if err != nil || !reflect.DeepEqual(back, p) {
			t.Fatalf("%v reads back as %v: %v", p, back, err)
		}
	})
	for _, d := range numbered {
		for k := range 11 {
			p := mustPlan(t, d, k)
			if back := mustParse(t, p.String()); !reflect.DeepEqual(back, p) {
				t.Errorf("%v reads back as %v", p, back)
			}
		}
	}
}

func TestPlanIsRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "k", "k=", "k=x", "k=-1 0-63/16", "k=17 0-63/1", "0-63/1",
		"k=0", // no table
		"k=0 0-63", "k=0 0-63/", "k=0 0-63/0", "k=0 0-63/65", "k=0 /1",
		"k=1 0-63/1~2", "k=0 0-63/1~-1", "k=1 0-63/8~", "k=0 0-63/8~1",
		"k=0 16-63,0-15/1", // table 0 is not the identity
		"k=0 0-31/1", "k=0 0-63,0-63/1", "k=0 0-31,31-63/1",
		"k=0 0-31,32-20,21-63/64", // a range that runs backwards
		"k=1 0-63/1",              // misses
		"k=3 0-63/20 20-39,0-19,40-63/20 40-63,0-39/24",
		"k=16 0-63/64~16", // a query of 2^49 probes
	} {
		if p, err := Parse(text); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q is %v, %v", text, p, err)
		}
	}
	if _, err := New(0); !errors.Is(err, ErrUnusable) {
		t.Errorf("a plan of no tables: %v", err)
	}
	if _, err := Named("4", MaxDistance+1); !errors.Is(err, ErrUnusable) {
		t.Errorf("k = %d: %v", MaxDistance+1, err)
	}
	if _, err := Named("5", 3); !errors.Is(err, ErrUnusable) {
		t.Errorf("design 5: %v", err)
	}
}

// TestPlanOfAdjacentRanges: a permutation may be given in pieces; the plan has the
// form that docs/format.md writes, so an index made with it opens with it again.
func TestPlanOfAdjacentRanges(t *testing.T) {
	tables := []Table{
		{Permutation: Permutation{{0, 31}, {32, 63}}, Prefix: 32},
		{Permutation: Permutation{{32, 47}, {48, 63}, {0, 31}}, Prefix: 32},
	}
	p, err := New(1, tables...)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.String(), "k=1 0-63/32 32-63,0-31/32"; got != want {
		t.Errorf("plan %q, not %q", got, want)
	}
	if len(tables[0].Permutation) != 2 {
		t.Error("NewPlan changed its arguments")
	}
	tables[0].Prefix = 1
	if p.Tables[0].Prefix != 32 {
		t.Error("the plan changes with the arguments of NewPlan")
	}
}

// TestPlanOfTangledTables: whether tables with no order in them miss something may
// take for ever to find out. Such a plan is refused in about a second.
func TestPlanOfTangledTables(t *testing.T) {
	const seed = 15 // of a plan that the search does not finish
	p := tangledPlan(seed)
	start := time.Now()
	_, err := New(p.MaxDistance, p.Tables...)
	if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "too many ways") {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16")
	for _, text := range radiusPlans {
		f.Add(text)
	}
	f.Add("k=0 0-31,32-20,21-63/64")
	f.Add("k=16 0-63/64~16")
	f.Add("k=+1 0-063/001~1")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrUnusable) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := Parse(p.String())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%q is %v, which reads back as %v: %v", text, p, again, err)
		}
		if p.Probes() < len(p.Tables) {
			t.Fatalf("%q: %d probes", text, p.Probes())
		}
	})
}
