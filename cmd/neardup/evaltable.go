package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/neardup/neardup/cmd/neardup/internal/eval"
)

// writeEvalTable prints a report for people.
func writeEvalTable(w io.Writer, r *eval.Report) error {
	fmt.Fprintf(w, "%d documents, %d pairs of near-duplicates, %d pairs of different documents\n", r.Documents, r.Positive, r.Negative)
	fmt.Fprintf(w, "left out: %d pairs in between, %d of identical texts\n", r.Between, r.Identical)
	fmt.Fprintf(w, "%s; mean ± standard deviation of %d seeds\n", r.Analyzer, r.Seeds)
	for _, c := range r.Curves {
		fmt.Fprintf(w, "\n%s\n\n", c.Name)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "k\tprecision\t\trecall\t\tF1\t\tfalse pairs\tper billion\t")
		for _, p := range c.Points {
			best := ""
			if p.K == c.BestK {
				best = " best"
			}
			fmt.Fprintf(t, "%d\t%s%.1f\t%.0f\t%s\n", p.K, scoreCells(p), p.FalsePairs, p.FalsePairsPerBillion, best)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nthe rule  %s\n", ruleLine(&r.Default))
	if r.Best != nil {
		fmt.Fprintf(w, "the best  %s\n", ruleLine(r.Best))
	}
	_, err := fmt.Fprintf(w, "(of the rules with precision %.2f or more, the one with the best F1)\n", eval.WantedPrecision)
	return err
}

func scoreCells(p eval.Point) string {
	return fmt.Sprintf("%.3f\t±%.3f\t%.3f\t±%.3f\t%.3f\t±%.3f\t",
		p.Precision, p.Deviation.Precision, p.Recall, p.Deviation.Recall, p.F1, p.Deviation.F1)
}

func ruleLine(p *eval.Point) string {
	return fmt.Sprintf("k=%d%s: precision %.3f ±%.3f, recall %.3f ±%.3f, F1 %.3f ±%.3f, %.0f ±%.0f false pairs per billion", p.K, p.Conditions(),
		p.Precision, p.Deviation.Precision, p.Recall, p.Deviation.Recall, p.F1, p.Deviation.F1,
		p.FalsePairsPerBillion, p.Deviation.FalsePairsPerBillion)
}
