package index

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestScaleAgreesWithMeasurements pins the model to what was measured: at 1e7, 1e8 and
// 1e9, from which its constants are, and at 3e7 and 3e8, from which they are not
// (docs/scale.md).
func TestScaleAgreesWithMeasurements(t *testing.T) {
	p := mustPlan(t, Design2, 3)
	for _, m := range measuredScales {
		s := p.Scale(int64(m.n), 1_000_000, Costs{}, Hardware{})
		n := m.n
		for _, c := range []struct {
			name           string
			model, measure float64
			within         float64
		}{
			{"tables", s.TableBytes / n, m.tables, 0.01},
			{"postings", s.PostingBytes / n, m.postings, 0.02},
			{"directories", s.DirectoryBytes / n, m.directories, 0.03},
			{"load", s.Load, m.load, 0.25},
		} {
			if c.measure > 0 && math.Abs(c.model/c.measure-1) > c.within {
				t.Errorf("%g documents, %s: the model says %.4g, measured was %.4g: more than %g %% off", n, c.name, c.model, c.measure, 100*c.within)
			}
		}
	}
}

// measuredScale has bytes a document and seconds; 0 is not measured.
type measuredScale struct{ n, tables, postings, directories, load float64 }

var measuredScales = []measuredScale{
	// neardup bench -only load,query, in docs/benchmarks.md.
	{n: 1e7, tables: 11.1, postings: 3.16, directories: 0.256, load: 2.71},
	{n: 1e8, tables: 10.2, postings: 3.56, directories: 0.241, load: 30.6},
	{n: 1e9, tables: 9.37, postings: 3.95, directories: 0.237, load: 222},
	// No constant is from these.
	{n: 3e7, tables: 10.7, postings: 3.30, directories: 0.248, load: 8.26},
	{n: 3e8, tables: 9.82, postings: 3.81, load: 80.9},
}

// TestScaleOfThePaper: the candidates of the paper's designs for 2^34 fingerprints
// (section 3.1.2), and what grows and shrinks with the hardware.
func TestScaleOfThePaper(t *testing.T) {
	const n = 1 << 34
	for d, most := range map[*Design]float64{&Design20: 8, &Design16: 64, &Design10: 512, &Design4: 1 << 18} {
		p := mustPlan(t, *d, 3)
		s := p.Scale(n, 1_000_000, Costs{}, Hardware{})
		if each := s.Candidates / float64(s.Probes); each > most*1.001 {
			t.Errorf("design %s: %g candidates a probe, the paper has %g", d.Name, each, most)
		}
		better := p.Scale(n, 1_000_000, Costs{}, Hardware{Cores: 64, QueueDepth: 512, BytesPerSecond: 8e9})
		if better.QueriesPerSecond <= s.QueriesPerSecond || better.Sorted >= s.Sorted {
			t.Errorf("design %s: with more of everything %+v, before %+v", d.Name, better, s)
		}
		little := p.Scale(n, 1_000_000, Costs{}, Hardware{RAMBytes: 1 << 30})
		if little.FilterBytes >= s.FilterBytes || little.Reads < s.Reads {
			t.Errorf("design %s: with 1 GiB of memory %+v", d.Name, little)
		}
	}
}

// TestScaleOfReads compares the reads of a query with filters of that many random
// fingerprints, at sizes from which the model has nothing.
func TestScaleOfReads(t *testing.T) {
	sizes := []int64{300_000}
	if long() {
		sizes = []int64{30_000_000, 300_000_000}
	}
	p := mustPlan(t, Design2, 3)
	for _, n := range sizes {
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		f := mustFilter(t, 32, n, unlimited)
		fps := make([]uint64, 1<<16)
		for left := n; left > 0; left -= int64(len(fps)) {
			fps = fps[:min(left, int64(len(fps)))]
			for i := range fps {
				fps[i] = rng.Uint64()
			}
			f.AddAll(fps)
		}
		const queries = 20_000
		passed := 0
		var dst []uint64
		for range queries {
			dst = f.AppendCandidates(dst[:0], rng.Uint64(), 1)
			passed += len(dst)
		}
		got := 2 * float64(passed) / queries // both tables are alike
		want := p.Scale(n, 1, Costs{}, Hardware{}).Reads
		t.Logf("%d fingerprints: %.4g reads a query, the model says %.4g", n, got, want)
		if math.Abs(got-want) > 0.05*want+5*math.Sqrt(want/queries) {
			t.Errorf("%d fingerprints: %.4g reads a query, the model says %.4g", n, got, want)
		}
	}
}
