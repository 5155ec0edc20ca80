package eval

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// These are the bounds of similarity for positive and negative pairs.
const (
	PositiveAt    = 0.90
	NegativeBelow = 0.80
)

// ErrLabels is wrapped by errors about an invalid pairs file.
var ErrLabels = errors.New("invalid pairs")

// Pair is two documents with the similarity of their texts.
type Pair struct {
	Similarity float64
	A, B       string // IDs
}

// maxLabelLine bounds the length of a line, so that memory is bounded for any input.
const maxLabelLine = 1 << 20

// ReadPairs reads lines of similarity TAB id TAB id. It ignores empty lines and lines that begin
// with #. Errors: ErrLabels with the line, and the errors of r.
func ReadPairs(r io.Reader) ([]Pair, error) {
	var pairs []Pair
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLabelLine)
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		p, err := parsePair(line)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrLabels, number, err)
		}
		pairs = append(pairs, p)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: line %d is longer than %d bytes", ErrLabels,
			number+1, maxLabelLine)
	case err != nil:
		return nil, err
	}
	return pairs, nil
}

func parsePair(line string) (Pair, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 3 {
		return Pair{}, fmt.Errorf(
			"%d fields, want similarity, id and id with tabs between them", len(fields))
	}
	similarity, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || !(similarity >= 0 && similarity <= 1) {
		return Pair{}, fmt.Errorf("the similarity is %.40q, want a number from 0 to 1", fields[0])
	}
	p := Pair{similarity, fields[1], fields[2]}
	if p.A == "" || p.B == "" || p.A == p.B {
		return Pair{}, fmt.Errorf("the ids are %.40q and %.40q, want two different ones", p.A, p.B)
	}
	return p, nil
}
