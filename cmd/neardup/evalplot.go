package main

import (
	"fmt"

	"github.com/neardup/neardup/cmd/neardup/internal/eval"
	"github.com/neardup/neardup/cmd/neardup/internal/figure"
)

// plotCurves draws precision and recall against k: the paper's figure 1.
func plotCurves(r *eval.Report, name string) error {
	var lines []figure.Line
	for i, c := range r.Curves {
		precision := figure.Line{Name: "precision, " + c.Name, Color: i}
		recall := figure.Line{Name: "recall, " + c.Name, Color: i, Dashed: true}
		for _, p := range c.Points {
			k := float64(p.K)
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
