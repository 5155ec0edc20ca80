package view

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Chart is a picture, ready to be drawn: what stands where in a view box of Width by Height.
type Chart struct {
	Title, Note   string
	X, Y          string // what the axes are
	Width, Height int
	Left, Bottom  float64 // where the axes are
	Right         float64

	Bars   []Bar
	Lines  []Line
	Labels []Label
	Grid   []float64
	Limit  *Label // a line across all
	Legend []Legend
	Rows   [][]string // the same as a table; the first row is its head
}

// Bar is a rectangle.
type Bar struct {
	X, Y, W, H float64
	Colour     string
}

// Line is a curve.
type Line struct {
	Points string
	Colour string
}

// Label is words in a picture.
type Label struct {
	X, Y   float64
	Anchor string
	Text   string
	Value  bool // it is a value, not a part of an axis
}

// Legend says what a colour is.
type Legend struct{ Colour, Name string }

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

// Series is numbers, one for each place on the axis.
type Series struct {
	Name, Colour string
	Values       []float64
}

// scale draws the axis of values from 0 on, and returns where a value stands.
func (c *Chart) scale(most float64, format func(float64) string) func(float64) float64 {
	step := niceStep(most / 3)
	top := step * math.Ceil(most/step)
	if top == 0 {
		step, top = 1, 1
	}
	at := func(v float64) float64 { return c.Bottom - (c.Bottom-chartTop)*min(v/top, 1) }
	for v := step; v <= top*1.0001; v += step {
		c.Grid = append(c.Grid, at(v))
		c.Labels = append(c.Labels, Label{X: c.Left - 6, Y: at(v) + 4, Anchor: "end", Text: format(v)})
	}
	return at
}

// niceStep is the least of 1, 2, 5, 10 ... that is not below v.
func niceStep(v float64) float64 {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0.25
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v {
			return f * power
		}
	}
	return 10 * power
}

// bars draws a histogram of counts, whose series stand on each other. Behind the place limit there
// is a line across, unless it is below 0.
func (c *Chart) bars(limit int, limitName string, series ...Series) *Chart {
	n, most := 0, 1.0
	for _, s := range series {
		n = max(n, len(s.Values))
	}
	total := make([]float64, n)
	for _, s := range series {
		for i, v := range s.Values {
			total[i] += v
			most = max(most, total[i])
		}
		if len(series) > 1 {
			c.Legend = append(c.Legend, Legend{s.Colour, s.Name})
		}
	}
	at := c.scale(max(most, 3), shortCount)
	step := (c.Right - c.Left) / float64(max(n, 1))
	base := make([]float64, n)
	for _, s := range series {
		for i, v := range s.Values {
			if v == 0 {
				continue
			}
			y, below := at(base[i]+v), at(base[i])
			y = min(y, below-1.5) // what is not 0 is seen
			c.Bars = append(c.Bars, Bar{X: c.Left + step*float64(i) + step*.12, Y: y, W: step * .76, H: below - y, Colour: s.Colour})
			base[i] += v
		}
	}
	c.head(c.X, series)
	for i, v := range total {
		middle := c.Left + step*(float64(i)+.5)
		c.Labels = append(c.Labels, Label{X: middle, Y: c.Bottom + 15, Anchor: "middle", Text: fmt.Sprint(i)})
		if v > 0 {
			c.Labels = append(c.Labels, Label{X: middle, Y: min(at(v), c.Bottom-1.5) - 5, Anchor: "middle", Text: shortCount(v), Value: true})
		}
		row := []string{fmt.Sprint(i)}
		for _, s := range series {
			value := 0.0
			if i < len(s.Values) {
				value = s.Values[i]
			}
			row = append(row, count(int64(value)))
		}
		c.Rows = append(c.Rows, row)
	}
	if limit >= 0 && limit < n {
		c.Limit = &Label{X: c.Left + step*float64(limit+1), Y: chartTop - 8, Anchor: "middle", Text: limitName}
	}
	return c
}

// head begins the table.
func (c *Chart) head(first string, series []Series) {
	row := []string{first}
	for _, s := range series {
		row = append(row, s.Name)
	}
	c.Rows = [][]string{row}
}

// lines draws values over time. Those that are not a number leave a gap.
func (c *Chart) lines(times []time.Time, format func(float64) string, series ...Series) *Chart {
	most := 0.0
	for _, s := range series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
		if s.Name != c.Y {
			c.Legend = append(c.Legend, Legend{s.Colour, s.Name})
		}
	}
	at := c.scale(most, format)
	if len(times) < 2 {
		return c
	}
	first, last := times[0], times[len(times)-1]
	span := max(last.Sub(first).Seconds(), 1)
	x := func(t time.Time) float64 { return c.Left + (c.Right-c.Left)*t.Sub(first).Seconds()/span }
	for _, s := range series {
		points := ""
		for i, v := range s.Values {
			if math.IsNaN(v) {
				c.line(&points, s.Colour)
				continue
			}
			points += fmt.Sprintf("%.1f,%.1f ", x(times[i]), at(v))
		}
		c.line(&points, s.Colour)
	}
	layout := "15:04"
	if span < 600 {
		layout = "15:04:05"
	} else if span > 36*3600 {
		layout = "Jan 2 15:04"
	}
	for i, anchor := range []string{"start", "middle", "end"} {
		t := first.Add(time.Duration(i) * last.Sub(first) / 2)
		c.Labels = append(c.Labels, Label{X: x(t), Y: c.Bottom + 15, Anchor: anchor, Text: t.Format(layout)})
	}
	c.head("time", series)
	for i := max(0, len(times)-12); i < len(times); i++ { // the last ones
		row := []string{times[i].Format(time.DateTime)}
		for _, s := range series {
			row = append(row, format(s.Values[i]))
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

func (c *Chart) line(points *string, colour string) {
	if strings.Count(*points, " ") == 1 { // it is shown as a dot
		*points += *points
	}
	if *points != "" {
		c.Lines = append(c.Lines, Line{*points, colour})
		*points = ""
	}
}
