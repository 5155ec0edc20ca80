package view

import (
	"fmt"
	"math"
	"slices"
)

// Chart is a chart as the template draws it, in a view box of Width by Height.
type Chart struct {
	Title, Note   string
	X, Y          string // names of the axes
	Width, Height int

	Left, Right, Bottom float64 // of the horizontal axis

	Bars   []Bar
	Labels []Label
	Grid   []float64  // heights of horizontal lines
	Limit  *Label     // of a vertical line; nil: none
	Legend []Series   // series whose name is not the name of the axis
	Rows   [][]string // table of the numbers; the first row is its head
}

// Bar is a rectangle.
type Bar struct {
	X, Y, W, H float64
	Colour     string
}

// Label is a text in a chart.
type Label struct {
	X, Y         float64
	Anchor, Text string
	Value        bool // the text is a value, not a part of an axis
}

// Series has one value for each place on the horizontal axis.
type Series struct {
	Name, Colour string
	Values       []float64
}

const (
	chartWidth, chartHeight = 460, 230
	chartTop, chartBottom   = 24, 40
	chartLeft, chartRight   = 54, 8
)

func newChart(title, note, x, y string) *Chart {
	return &Chart{
		Title: title, Note: note, X: x, Y: y, Width: chartWidth, Height: chartHeight,
		Left: chartLeft, Right: chartWidth - chartRight, Bottom: chartHeight - chartBottom,
	}
}

// scale draws the axis of values from 0 to at least most, and returns the function from a value to
// its height.
func (c *Chart) scale(most float64, format func(float64) string) func(float64) float64 {
	step, top := 1.0, 1.0
	if most > 0 {
		step = niceStep(most / 3)
		top = step * math.Ceil(most/step)
	}
	at := func(v float64) float64 { return c.Bottom - (c.Bottom-chartTop)*min(v/top, 1) }
	for v := step; v <= top*1.0001; v += step {
		c.Grid = append(c.Grid, at(v))
		c.Labels = append(c.Labels, Label{X: c.Left - 6, Y: at(v) + 4, Anchor: "end",
			Text: format(v)})
	}
	return at
}

// niceStep returns the least of 1, 2, 5, 10, 20 and so on, and of 0.1, 0.2, 0.5 and so on, that is
// at least v > 0.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v {
			return f * power
		}
	}
	return 10 * power
}

// describe adds the legend, and the table of the last values, which has a row for each name.
func (c *Chart) describe(
	axis string, names []string, format func(float64) string, series []Series,
) {
	head := []string{axis}
	for _, s := range series {
		head = append(head, s.Name)
		if s.Name != c.Y {
			c.Legend = append(c.Legend, s)
		}
	}
	c.Rows = append(c.Rows, head)
	for i, name := range names {
		row := []string{name}
		for _, s := range series {
			row = append(row, format(s.Values[len(s.Values)-len(names)+i]))
		}
		c.Rows = append(c.Rows, row)
	}
}

// bars draws a histogram of counts. The bars of several series, which have equally many values, are
// stacked. If limit is a place of the axis, a vertical line follows it.
func (c *Chart) bars(limit int, limitName string, series ...Series) *Chart {
	total, names := make([]float64, len(series[0].Values)), []string{}
	for i := range total {
		names = append(names, fmt.Sprint(i))
		for _, s := range series {
			total[i] += s.Values[i]
		}
	}
	c.describe(c.X, names, func(v float64) string { return count(int64(v)) }, series)
	at := c.scale(slices.Max(append(total, 3)), shortCount)
	step := (c.Right - c.Left) / float64(max(len(total), 1))
	for i, sum := range total {
		left, top := c.Left+step*float64(i), c.Bottom
		for _, s := range series {
			if s.Values[i] > 0 {
				// a bar is visible unless its value is 0
				height := max(c.Bottom-at(s.Values[i]), 1.5)
				top -= height
				c.Bars = append(c.Bars, Bar{left + step*.12, top, step * .76, height, s.Colour})
			}
		}
		c.Labels = append(c.Labels, Label{X: left + step/2, Y: c.Bottom + 15, Anchor: "middle",
			Text: names[i]})
		if sum > 0 {
			c.Labels = append(c.Labels, Label{X: left + step/2, Y: top - 5, Anchor: "middle",
				Text: shortCount(sum), Value: true})
		}
	}
	if limit >= 0 && limit < len(total) {
		c.Limit = &Label{X: c.Left + step*float64(limit+1), Y: chartTop - 8, Anchor: "middle",
			Text: limitName}
	}
	return c
}
