// Package figure counts how fingerprints are distributed, and draws the curves and histograms of
// the command as SVG or PNG.
package figure

import (
	"errors"
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// ErrFormat is wrapped by errors about a file name with an unknown extension.
var ErrFormat = errors.New("unknown picture format")

var formats = []string{".svg", ".png"}

// Check returns an error if the picture format of a file name is unknown.
func Check(name string) error {
	if !slices.Contains(formats, strings.ToLower(filepath.Ext(name))) {
		return fmt.Errorf("%w: %q ends neither in .svg nor in .png", ErrFormat, name)
	}
	return nil
}

const (
	width  = 14 * vg.Centimeter
	height = 9 * vg.Centimeter
)

// Line is a curve through the points (X[i], Y[i]).
type Line struct {
	Name   string
	X, Y   []float64
	Dashed bool
	Color  int // lines with equal numbers have one color
}

// palette has colors that people with color blindness can distinguish (Okabe and Ito 2008).
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff},
	{0xd5, 0x5e, 0x00, 0xff},
	{0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff},
}

// Axes has the title and the labels of a picture. If YMax is not 0, the y axis ends there.
type Axes struct {
	Title, X, Y string
	YMax        float64
}

func (a *Axes) plot() *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.Title, a.X, a.Y
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	return p
}

func (a *Axes) save(p *plot.Plot, name string) error {
	if a.YMax != 0 {
		p.Y.Min, p.Y.Max = 0, a.YMax
	}
	return p.Save(width, height, name)
}

// Curves draws lines into a file.
func Curves(name string, axes Axes, lines []Line) error {
	p := axes.plot()
	p.Legend.Left = true
	for _, l := range lines {
		points := make(plotter.XYs, len(l.X))
		for i := range points {
			points[i].X, points[i].Y = l.X[i], l.Y[i]
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("figure: %s: %w", l.Name, err)
		}
		line.Color, line.Width = palette[l.Color%len(palette)], vg.Points(1.5)
		if l.Dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(line)
		p.Legend.Add(l.Name, line)
	}
	return axes.save(p, name)
}

// Bars draws a bar for each value, the first one at x = 0.
func Bars(name string, axes Axes, values []int) error {
	p := axes.plot()
	bars, err := plotter.NewHistogram(barsOf(values), len(values))
	if err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	bars.FillColor, bars.LineStyle.Width = palette[0], 0
	p.Add(bars)
	return axes.save(p, name)
}

type barsOf []int

func (b barsOf) Len() int                    { return len(b) }
func (b barsOf) XY(i int) (float64, float64) { return float64(i), float64(b[i]) }
