package bench

import (
	"testing"
)

func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 99.94: "99.9", 100: "100", 12345.6: "12346", 0.61: "0.610", 0.0123456: "0.0123",
		1e-9: "0.000000", -3.14159: "-3.14", 66: "66.0",
	} {
		if got := significant(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestFigureString(t *testing.T) {
	got := Figure{"query", "mean", 2.5, "us", 0.5}.String()
	want := "query: mean                                                        2.50 us              0.500"
	if got != want {
		t.Errorf("\n%q, want\n%q", got, want)
	}
	if got := (Figure{"open", "compacted", 1, "s", 0}).String(); got[len(got)-1] != 's' {
		t.Errorf("%q ends with blanks", got)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 3, 2, 4}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 || values[0] != 5 {
		t.Error("of nothing, or the order changed")
	}
}

// A candidate's ratio is the median over the rounds, so one slow round does not count.
func TestOver(t *testing.T) {
	c := &candidate{rounds: []float64{2, 2, 90, 4, 2}}
	ref := &candidate{rounds: []float64{4, 4, 4, 8, 4}}
	if got := c.over(ref); got != 0.5 {
		t.Errorf("%v", got)
	}
	if c.mean() != 20 || c.median() != 2 {
		t.Errorf("mean %v, median %v", c.mean(), c.median())
	}
}
