package eval

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/neardup/neardup/cmd/neardup/internal/figure"
)

// WriteTable writes a report as a text table.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d documents, %d pairs of near-duplicates, %d pairs of different documents\n",
		r.Documents, r.Positive, r.Negative)
	fmt.Fprintf(w, "left out: %d pairs in between, %d pairs with equal tokens\n", r.Between,
		r.Identical)
	fmt.Fprintf(w, "%s; mean ± standard deviation of %d seeds\n", r.Analyzer, r.Seeds)
	for _, c := range r.Curves {
		fmt.Fprintf(w, "\n%s\n\n", c.Name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "k\tprecision\t\trecall\t\tF1\t\tfalse pairs\tper billion\t")
		for _, p := range c.Points {
			best := ""
			if p.Rule.MaxDistance == c.BestK {
				best = " best"
			}
			fmt.Fprintf(t, "%d\t%s%.1f\t%.0f\t%s\n", p.Rule.MaxDistance,
				scoreCells(p.Score, p.Deviation), p.FalsePairs, p.FalsePairsPerBillion, best)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return r.WriteMethods(w)
}

// WriteMethods writes a line per method, beginning with the rule, with the losses of a crawler.
// MB/s is the speed on one core, including the tokenizer.
func (r *Report) WriteMethods(w io.Writer) error {
	methods, measured := r.Methods, len(r.Methods) > 0
	if !measured {
		methods = []Method{r.method()}
	}
	fmt.Fprintf(w, "%d distinct documents and %d near-duplicates; the loss is per million "+
		"documents, and counts each dropped document %[3]d times\n",
		r.Crawl.Distinct, r.Crawl.Duplicates, droppedWeight)
	fmt.Fprintf(w, "the rule is %v\n\n", r.Default.Rule)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "method\tprecision\t\trecall\t\tF1\t\tfalse pairs\tdropped per million\tstored "+
		"per million\tloss\t")
	if measured {
		fmt.Fprint(t, "bytes\tMB/s\t")
	}
	fmt.Fprintln(t)
	for _, m := range methods {
		fmt.Fprintf(t, "%s\t%s%.1f\t%.0f\t%.0f\t%.0f\t", m.Name,
			scoreCells(m.Score, m.Deviation), m.FalsePairs,
			m.Crawl.DroppedPerMillion, m.Crawl.StoredPerMillion, m.Crawl.LossPerMillion)
		if measured {
			fmt.Fprintf(t, "%.0f\t%.1f\t", m.BytesPerDocument, m.MBPerSecond)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

func scoreCells(s, deviation Score) string {
	return fmt.Sprintf("%.3f\t±%.3f\t%.3f\t±%.3f\t%.3f\t±%.3f\t",
		s.Precision, deviation.Precision, s.Recall, deviation.Recall, s.F1, deviation.F1)
}

// Plot draws precision and recall against k into a file: the paper's figure 1.
func (r *Report) Plot(name string) error {
	var lines []figure.Line
	for i, c := range r.Curves {
		precision := figure.Line{Name: "precision, " + c.Name, Color: i}
		recall := figure.Line{Name: "recall, " + c.Name, Color: i, Dashed: true}
		for _, p := range c.Points {
			k := float64(p.Rule.MaxDistance)
			precision.X, precision.Y = append(precision.X, k), append(precision.Y, p.Precision)
			recall.X, recall.Y = append(recall.X, k), append(recall.Y, p.Recall)
		}
		lines = append(lines, precision, recall)
	}
	axes := figure.Axes{
		Title: fmt.Sprintf("%d documents, %d pairs of near-duplicates, %d seeds", r.Documents,
			r.Positive, r.Seeds),
		X:    "k",
		Y:    "precision, recall",
		YMax: 1,
	}
	return figure.Curves(name, axes, lines)
}
