package view

import (
	"math"
	"slices"
	"strconv"
)

// Chart is a histogram as the template draws it, in a view box of Width by Height.
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

// Series has one count for each place on the horizontal axis.
type Series struct {
	Name, Colour string
	Counts       []int64
}

const (
	chartWidth, chartHeight = 460, 230
	chartTop, chartBottom   = 24, 40
	chartLeft, chartRight   = 54, 8
)

// draw draws the series, which have equally many counts, as stacked bars. If limit is a place on
// the axis, a vertical line follows it.
func (c *Chart) draw(limit int, limitName string, series ...Series) *Chart {
	c.Width, c.Height = chartWidth, chartHeight
	c.Left, c.Right, c.Bottom = chartLeft, chartWidth-chartRight, chartHeight-chartBottom
	totals := c.describe(series)
	at := c.scale(float64(slices.Max(append(totals, 3))))
	step := (c.Right - c.Left) / float64(max(len(totals), 1))
	for i, total := range totals {
		left, top := c.Left+step*float64(i), c.Bottom
		for _, s := range series {
			if s.Counts[i] > 0 {
				// a bar is visible unless its count is 0
				height := max(c.Bottom-at(float64(s.Counts[i])), 1.5)
				top -= height
				c.Bars = append(c.Bars, Bar{left + step*.12, top, step * .76, height, s.Colour})
			}
		}
		c.Labels = append(c.Labels, Label{X: left + step/2, Y: c.Bottom + 15, Anchor: "middle",
			Text: strconv.Itoa(i)})
		if total > 0 {
			c.Labels = append(c.Labels, Label{X: left + step/2, Y: top - 5, Anchor: "middle",
				Text: shortCount(float64(total)), Value: true})
		}
	}
	if limit >= 0 && limit < len(totals) {
		c.Limit = &Label{X: c.Left + step*float64(limit+1), Y: chartTop - 8, Anchor: "middle",
			Text: limitName}
	}
	return c
}

// describe sets the legend and the table, and returns the sum of the series at each place.
func (c *Chart) describe(series []Series) (totals []int64) {
	totals = make([]int64, len(series[0].Counts))
	head := []string{c.X}
	for _, s := range series {
		head = append(head, s.Name)
		if s.Name != c.Y {
			c.Legend = append(c.Legend, s)
		}
	}
	c.Rows = append(c.Rows, head)
	for i := range totals {
		row := []string{strconv.Itoa(i)}
		for _, s := range series {
			totals[i] += s.Counts[i]
			row = append(row, count(s.Counts[i]))
		}
		c.Rows = append(c.Rows, row)
	}
	return totals
}

// scale draws the axis of counts from 0 to at least most, which is 3 or more, and returns the
// function from a count to its height. The step is 1, 2 or 5, or one of them times a power of 10.
func (c *Chart) scale(most float64) func(float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(most/3)))
	step := 10 * power
	for _, f := range []float64{5, 2, 1} {
		if f*power >= most/3 {
			step = f * power
		}
	}
	top := step * math.Ceil(most/step)
	at := func(v float64) float64 { return c.Bottom - (c.Bottom-chartTop)*v/top }
	for v := step; v <= top; v += step {
		c.Grid = append(c.Grid, at(v))
		c.Labels = append(c.Labels, Label{X: c.Left - 6, Y: at(v) + 4, Anchor: "end",
			Text: shortCount(v)})
	}
	return at
}
