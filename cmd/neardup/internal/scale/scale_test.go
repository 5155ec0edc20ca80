package scale

import (
	"math"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/plan"
)

// TestScaleAgreesWithMeasurements pins the model to what was measured: at 1e7, 1e8 and
// 1e9, from which its constants are, and at 3e7 and 3e8, from which they are not
// (docs/scale.md).
func TestScaleAgreesWithMeasurements(t *testing.T) {
	p, err := plan.Named("2", 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measuredScales {
		s := Of(p, int64(m.n), 1_000_000, &commonHardware)
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

// commonHardware is what the flags of plan stand for.
var commonHardware = Hardware{Cores: 2, ReadLatency: 100 * time.Microsecond, QueueDepth: 32, DiskRate: 1}

// TestScaleOfThePaper: the candidates of the paper's designs for 2^34 fingerprints
// (section 3.1.2), and what grows and shrinks with the hardware.
func TestScaleOfThePaper(t *testing.T) {
	const n, million = 1 << 34, 1e6
	for design, most := range map[string]float64{"20": 8, "16": 64, "10": 512, "4": 1 << 18} {
		p, err := plan.Named(design, 3)
		if err != nil {
			t.Fatal(err)
		}
		s := Of(p, n, million, &commonHardware)
		if each := s.Candidates / float64(s.Probes); each > most*1.001 {
			t.Errorf("design %s: %g candidates a probe, the paper has %g", design, each, most)
		}
		h := commonHardware
		h.Cores, h.QueueDepth, h.DiskRate = 64, 512, 8
		if better := Of(p, n, million, &h); better.QueriesPerSecond <= s.QueriesPerSecond || better.BatchTime >= s.BatchTime {
			t.Errorf("design %s: with more of everything %+v, before %+v", design, better, s)
		}
		h = commonHardware
		h.RAMBytes = 1 << 30
		if little := Of(p, n, million, &h); little.FilterBytes >= s.FilterBytes || little.Passing < s.Passing {
			t.Errorf("design %s: with 1 GiB of memory %+v", design, little)
		}
		if twice := Of(p, n, 8*batchWindow, &commonHardware).BatchTime / Of(p, n, 4*batchWindow, &commonHardware).BatchTime; math.Abs(twice-2) > 0.01 {
			t.Errorf("design %s: twice as many windows take %g times as long", design, twice)
		}
	}
}

// TestOptimalTables has values worked out by hand from the formula of section 3.1.2,
// X(f,k,d) = 1 if d <= threshold, else the least over r > k of
// binomial(r,k) * X(f*k/r, k, d-(r-k)*f/r).
func TestOptimalTables(t *testing.T) {
	for _, c := range []struct {
		f            float64
		k            int
		d, threshold float64
		want         float64
	}{
		{64, 3, 10, 10, 1}, // at most 2^10 candidates without any table's help
		{64, 3, 26, 10, 4}, // 4 blocks of 16: 26-16 = 10
		// One bit more and 4 blocks leave 11 bits, 4 * 4 = 16 with a second cut; 5 blocks
		// match 25.6 bits at once.
		{64, 3, 27, 10, 10},
		{64, 3, 34, 10, 10}, // 5 blocks: 34-25.6 = 8.4
		{64, 3, 34, 8, 16},  // 4 blocks twice: 34-16-12 = 6. 5 blocks leave 8.4; 6 would take 20 tables
		// 6 blocks leave 4 bits, one too many; 7 of them, 35 tables, match 36.6 at once. 4*4
		// leave 8, 10*4 and 4*4*4 are more than 35.
		{64, 3, 36, 3, 35},
		{64, 3, 42, 10, 20}, // 6 blocks: 42-32 = 10. 4*4 leave 14, 5 leave 16.4
		{64, 0, 34, 10, 1},  // k = 0: one sorted table matches all bits
		{64, 1, 42, 10, 2},  // 2 blocks of 32
		{64, 1, 43, 10, 3},  // 3 blocks of 21.3, 2 matched: 42.7
		{64, 2, 31, 10, 3},  // 3 blocks of 21.3
		{64, 2, 42, 10, 6},  // 4 blocks, 2 matched: 32
	} {
		if got := OptimalTables(c.f, c.k, c.d, c.threshold); got != c.want {
			t.Errorf("X(%g,%d,%g) with 2^%g candidates is %g, not %g", c.f, c.k, c.d, c.threshold, got, c.want)
		}
	}
}
