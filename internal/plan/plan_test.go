package plan

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/neardup/neardup/internal/testing/testenv"
)

var must = testenv.Must

// TestData runs the files in testdata, which explain plans by example. Begin with testdata/1_paper.
// With -rewrite, the test writes the results.
func TestData(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "rapid") {
			return // a failure that TestPermutation has saved
		}
		var p *Plan // the plan of the following commands
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var err error
			switch d.Cmd {
			case "plan":
				p, err = Parse(d.Input)
			case "refused":
				return refused(d.Input)
			case "design":
				p, err = Named(d.CmdArgs[0].Key, whole(t, d, "k"))
			case "designs":
				return prefixes(t, whole(t, d, "k"))
			case "flips":
				return flips(p, d.Input)
			case "estimate":
				e := p.Estimate(int64(number(t, d, "n")))
				return fmt.Sprintf("%d lookups, %.4g probes pass, %.4g candidates\n%.4g B "+
					"tables, %.4g B postings, %.4g B filters, %.4g B directories\nwarm %.4g ns, "+
					"from disk %.4g ns\n",
					e.FilterLookups, e.Passing, e.Candidates, e.TableBytes, e.PostingBytes,
					e.FilterBytes, e.DirectoryBytes, e.Warm, e.Disk)
			case "each":
				n := number(t, d, "n")
				e := p.Estimate(int64(n))
				return fmt.Sprintf("%.3g B tables, %.3g B postings, %.3g B directories, "+
					"%.4g candidates per probe\n", e.TableBytes/n, e.PostingBytes/n,
					e.DirectoryBytes/n, e.Candidates/float64(e.Probes))
			case "optimal":
				var b strings.Builder
				for line := range strings.Lines(d.Input) {
					var bits, differ, threshold float64
					var k int
					_, err := fmt.Sscan(line, &bits, &k, &differ, &threshold)
					must(t, err)
					fmt.Fprintln(&b, OptimalTables(bits, k, differ, threshold))
				}
				return b.String()
			case "choose":
				c, err := Choose(whole(t, d, "k"), int64(number(t, d, "n")))
				if err != nil {
					return err.Error() + "\n"
				}
				return fmt.Sprintf("%s: %s\n", c.Design, c.Plan)
			default:
				t.Fatalf("no command %q", d.Cmd)
			}
			if err != nil {
				return err.Error() + "\n"
			}
			return draw(p)
		})
	})
}

// number returns an argument that may have the form 1e9, or 0 if it is missing.
func number(t *testing.T, d *datadriven.TestData, name string) float64 {
	text := "0"
	d.MaybeScanArgs(t, name, &text)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return n
}

func whole(t *testing.T, d *datadriven.TestData, name string) int { return int(number(t, d, name)) }

// draw returns the bits of each table in their order, with the prefix in brackets.
func draw(p *Plan) string {
	var b strings.Builder
	fmt.Fprintln(&b, p)
	for i, t := range p.Tables {
		prefix, rest := cut(t.Permutation, t.Prefix)
		fmt.Fprintf(&b, "table %d: [%v]%v, %s\n", i, Permutation(prefix), Permutation(rest),
			probes(t.Probes()))
	}
	fmt.Fprintf(&b, "%s, %.4g candidates of 2^32\n", probes(p.Probes()),
		p.Estimate(1<<32).Candidates)
	return b.String()
}

func probes(n int) string {
	if n == 1 {
		return "1 probe"
	}
	return fmt.Sprintf("%d probes", n)
}

// flips returns, for each line of bits, the tables that find a fingerprint that differs in them.
func flips(p *Plan, input string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		differ := uint64(0)
		for bit := range strings.FieldsSeq(line) {
			n, _ := strconv.Atoi(bit)
			differ |= 1 << (63 - n)
		}
		var found []int
		for i := range p.Tables {
			if one := (Plan{Tables: p.Tables[i : i+1], masks: p.masks[i : i+1]}); one.FoundBefore(1,
				differ) {
				found = append(found, i)
			}
		}
		fmt.Fprintf(&b, "%s: found in tables %v\n", line, found)
	}
	return b.String()
}

// refused returns, for each line, why it is not a valid plan.
func refused(input string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		p, err := Parse(line)
		if !errors.Is(err, ErrUnusable) {
			return fmt.Sprintf("%q is %v, %v", line, p, err)
		}
		fmt.Fprintf(&b, "%s: %v\n", line, strings.TrimPrefix(err.Error(), ErrUnusable.Error()+": "))
	}
	return b.String()
}

// prefixes lists prefix~radius of the tables of all designs. xN stands for N equal tables in a row.
func prefixes(t *testing.T, k int) string {
	var b strings.Builder
	for _, design := range Designs(k) {
		fmt.Fprint(&b, design)
		tables := tablesFor(t, design, k).Tables
		for i, n := 0, 1; i < len(tables); i, n = i+1, n+1 {
			table := tables[i]
			if i+1 < len(tables) && tables[i+1].Prefix == table.Prefix &&
				tables[i+1].Radius == table.Radius {
				continue
			}
			fmt.Fprintf(&b, " %d", table.Prefix)
			if table.Radius > 0 {
				fmt.Fprintf(&b, "~%d", table.Radius)
			}
			if n > 1 {
				fmt.Fprintf(&b, "x%d", n)
			}
			n = 0
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// mustPlan returns the plan of a design. Parse must return the same plan for its String.
func mustPlan(t testing.TB, design string, k int) *Plan {
	t.Helper()
	p, err := Named(design, k)
	must(t, err)
	if back, err := Parse(p.String()); err != nil || !reflect.DeepEqual(back, p) {
		t.Fatalf("%v reads back as %v: %v", p, back, err)
	}
	return p
}

// tablesFor returns the plan of a design without the proof, which is slow.
func tablesFor(t testing.TB, design string, k int) *Plan {
	t.Helper()
	tables, err := tablesOf(design, k)
	must(t, err)
	return &Plan{MaxDistance: k, Tables: tables}
}

func FuzzParse(f *testing.F) {
	f.Add("k=3 0-63/16 16-31,0-15,32-63/16 32-47,0-31,48-63/16 48-63,0-47/16")
	f.Add("k=5 0-63/21~1 21-42,0-20,43-63/22~1 43-63,0-42/21~1")
	f.Add("k=2 0-63/12~2")
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
