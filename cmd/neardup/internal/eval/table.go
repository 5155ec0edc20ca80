package eval

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/neardup/neardup/cmd/neardup/internal/figure"
)

// WriteTable writes a report for people.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d documents, %d pairs of near-duplicates, %d pairs of different documents\n", r.Documents, r.Positive, r.Negative)
	fmt.Fprintf(w, "left out: %d pairs in between, %d of equal tokens\n", r.Between, r.Identical)
	fmt.Fprintf(w, "%s; mean ± standard deviation of %d seeds\n", r.Analyzer, r.Seeds)
	for _, c := range r.Curves {
		fmt.Fprintf(w, "\n%s\n\n", c.Name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "k\tprecision\t\trecall\t\tF1\t\tfalse pairs\tper billion\t")
		for _, p := range c.Points {
			best := ""
			if p.MaxDistance == c.BestK {
				best = " best"
			}
			fmt.Fprintf(t, "%d\t%s%.1f\t%.0f\t%s\n", p.MaxDistance, scoreCells(p.Score, p.Deviation), p.FalsePairs, p.FalsePairsPerBillion, best)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nthe rule  %s\n", ruleLine(&r.Default))
	_, err := fmt.Fprintf(w, "a crawler with the rule would drop %.1f of %d distinct documents and store %.1f of %d near-duplicates of earlier ones\n",
		r.Crawl.Dropped, r.Crawl.Distinct, r.Crawl.Stored, r.Crawl.Duplicates)
	if len(r.Methods) > 0 {
		err = writeMethods(w, r.Methods)
	}
	return err
}

func writeMethods(w io.Writer, methods []Method) error {
	fmt.Fprintf(w, "\nother methods; MB/s of text on one core, including the tokenizer\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "method\tbytes\tMB/s\tprecision\t\trecall\t\tF1\t\tper billion")
	for _, m := range methods {
		fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%s%.0f\n", m.Name, m.BytesPerDocument, m.MBPerSecond, scoreCells(m.Score, m.Deviation), m.FalsePairsPerBillion)
	}
	return t.Flush()
}

func scoreCells(s, deviation Score) string {
	return fmt.Sprintf("%.3f\t±%.3f\t%.3f\t±%.3f\t%.3f\t±%.3f\t",
		s.Precision, deviation.Precision, s.Recall, deviation.Recall, s.F1, deviation.F1)
}

func ruleLine(p *Point) string {
	return fmt.Sprintf("k=%d%s: precision %.3f ±%.3f, recall %.3f ±%.3f, F1 %.3f ±%.3f, %.0f ±%.0f false pairs per billion", p.MaxDistance, p.Conditions(),
		p.Precision, p.Deviation.Precision, p.Recall, p.Deviation.Recall, p.F1, p.Deviation.F1,
		p.FalsePairsPerBillion, p.Deviation.FalsePairsPerBillion)
}

// Plot draws precision and recall against k into a file: the paper's figure 1.
func (r *Report) Plot(name string) error {
	var lines []figure.Line
	for i, c := range r.Curves {
		precision := figure.Line{Name: "precision, " + c.Name, Color: i}
		recall := figure.Line{Name: "recall, " + c.Name, Color: i, Dashed: true}
		for _, p := range c.Points {
			k := float64(p.MaxDistance)
			precision.X, precision.Y = append(precision.X, k), append(precision.Y, p.Precision)
			recall.X, recall.Y = append(recall.X, k), append(recall.Y, p.Recall)
		}
		lines = append(lines, precision, recall)
	}
	axes := figure.Axes{
		Title: fmt.Sprintf("%d documents, %d pairs of near-duplicates, %d seeds", r.Documents, r.Positive, r.Seeds),
		X:     "k",
		Y:     "precision, recall",
		YMax:  1,
	}
	return figure.Curves(name, axes, lines)
}
