package plan

import (
	"math"
	"testing"
)

// TestEstimateAgreesWithMeasurements compares the model with measured sizes in bytes per
// document. The constants of the model come from the sizes at 1e7, 1e8 and 1e9, and not from the
// sizes at 3e7 and 3e8.
func TestEstimateAgreesWithMeasurements(t *testing.T) {
	p := mustPlan(t, "2", 3)
	for _, m := range []struct{ n, tables, postings, directories float64 }{ // 0: not measured
		{1e7, 11.1, 3.16, 0.256},
		{1e8, 10.2, 3.56, 0.241},
		{1e9, 9.37, 3.95, 0.237},
		{3e7, 10.7, 3.30, 0.248},
		{3e8, 9.82, 3.81, 0},
	} {
		e := p.Estimate(int64(m.n))
		for _, c := range []struct {
			name                    string
			model, measured, within float64
		}{
			{"tables", e.TableBytes / m.n, m.tables, 0.01},
			{"postings", e.PostingBytes / m.n, m.postings, 0.02},
			{"directories", e.DirectoryBytes / m.n, m.directories, 0.03},
		} {
			if c.measured > 0 && math.Abs(c.model/c.measured-1) > c.within {
				t.Errorf("%g documents, %s: the model gives %.4g bytes per document, measured "+
					"were %.4g", m.n, c.name, c.model, c.measured)
			}
		}
	}
}

// TestCandidatesOfThePaper tests that the paper's designs for 2^34 fingerprints have at most as
// many candidates per probe as the paper says (section 3.1.2).
func TestCandidatesOfThePaper(t *testing.T) {
	for design, most := range map[string]float64{"20": 8, "16": 64, "10": 512, "4": 1 << 18} {
		e := mustPlan(t, design, 3).Estimate(1 << 34)
		if each := e.Candidates / float64(e.Probes); each > most*1.001 {
			t.Errorf("design %s: %g candidates per probe, the paper has %g", design, each, most)
		}
	}
}

// TestOptimalTables has values computed by hand from the formula of section 3.1.2. X(f,k,d) is 1
// if d <= threshold. Otherwise it is the minimum over r > k of binomial(r,k) * X(f*k/r, k,
// d-(r-k)*f/r).
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
		// 4 blocks twice: 34-16-12 = 6. 5 blocks leave 8.4; 6 would take 20 tables
		{64, 3, 34, 8, 16},
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
			t.Errorf("X(%g,%d,%g) with 2^%g candidates is %g, not %g", c.f, c.k, c.d,
				c.threshold, got, c.want)
		}
	}
}
