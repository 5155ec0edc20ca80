package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// node is a column, or a group of columns, of what is asked for.
type node struct {
	column   *parquet.Column
	children []*node
	leaves   []*leaf // in and below it
	list     bool    // a group around a repeated column
	wrapped  bool    // and each element in a group
	mapping  bool    // a group around repeated keys and values
}

// newNode makes the tree of a file's columns, of those that are wanted; all if none is named.
func newNode(root *parquet.Column, wanted []string) (*node, error) {
	n := makeNode(root, wanted)
	for _, name := range wanted {
		if !slices.ContainsFunc(n.leaves, func(l *leaf) bool { return isWithin(l.name(), name) }) {
			var names []string
			for _, c := range root.Columns() {
				names = append(names, c.Name())
			}
			return nil, fmt.Errorf("there is no column %q: it has %s", name, strings.Join(names, ", "))
		}
	}
	if len(n.leaves) == 0 {
		return nil, errors.New("it has no columns")
	}
	return n, nil
}

func isWithin(path, name string) bool { return path == name || strings.HasPrefix(path, name+".") }

func makeNode(c *parquet.Column, wanted []string) *node {
	n := &node{column: c}
	if c.Leaf() {
		l := &leaf{column: c}
		if len(wanted) == 0 || slices.ContainsFunc(wanted, func(name string) bool { return isWithin(l.name(), name) }) {
			n.leaves = append(n.leaves, l)
		}
		return n
	}
	for _, column := range c.Columns() {
		if child := makeNode(column, wanted); len(child.leaves) > 0 {
			n.children = append(n.children, child)
			n.leaves = append(n.leaves, child.leaves...)
		}
	}
	if len(n.children) != 1 || !n.children[0].column.Repeated() || c.Type().LogicalType() == nil {
		return n
	}
	inner := n.children[0].column
	switch c.Type().LogicalType().Value.(type) {
	case *format.ListType:
		n.list = true // what elements are where there is no group around each: see LogicalTypes.md of the format
		n.wrapped = len(inner.Columns()) == 1 && inner.Name() != "array" && inner.Name() != c.Name()+"_tuple"
	case *format.MapType:
		n.mapping = len(n.children[0].children) == 2
	}
	return n
}

// appendJSON appends what the values of the leaves, those of one row or of one element, mean.
func (n *node) appendJSON(b []byte, values [][]parquet.Value) ([]byte, error) {
	if n.column.Repeated() {
		return n.appendArray(b, values, n.appendOne)
	}
	return n.appendOne(b, values)
}

func (n *node) appendOne(b []byte, values [][]parquet.Value) ([]byte, error) {
	switch {
	case n.isAbsent(values):
		return append(b, "null"...), nil
	case n.column.Leaf() && len(values[0]) > 1:
		return nil, errDisagree
	case n.column.Leaf():
		return n.leaves[0].appendValue(b, values[0][0])
	case n.mapping:
		return n.appendMap(b, values)
	case n.wrapped:
		return n.children[0].appendArray(b, values, n.children[0].children[0].appendJSON)
	case n.list:
		return n.children[0].appendJSON(b, values)
	}
	b = append(b, '{')
	for i, child := range n.children {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, child.column.Name())
		b = append(b, ':')
		var err error
		if b, err = child.appendJSON(b, values[:len(child.leaves)]); err != nil {
			return nil, err
		}
		values = values[len(child.leaves):]
	}
	return append(b, '}'), nil
}

// isAbsent says whether an optional column has no value here, or a repeated one no element.
func (n *node) isAbsent(values [][]parquet.Value) bool {
	return !n.column.Required() && values[0][0].DefinitionLevel() < n.column.MaxDefinitionLevel()
}

var errDisagree = errors.New("its columns have lists of different lengths")

// appendArray appends the elements of a repeated column.
func (n *node) appendArray(b []byte, values [][]parquet.Value, element func([]byte, [][]parquet.Value) ([]byte, error)) ([]byte, error) {
	begin := len(b)
	b = append(b, '[')
	err := n.eachElement(values, func(values [][]parquet.Value) (err error) {
		if len(b) > begin+1 {
			b = append(b, ',')
		}
		b, err = element(b, values)
		return err
	})
	return append(b, ']'), err
}

// appendMap appends the entries of a map as an object.
func (n *node) appendMap(b []byte, values [][]parquet.Value) ([]byte, error) {
	entry := n.children[0]
	begin := len(b)
	b = append(b, '{')
	err := entry.eachElement(values, func(values [][]parquet.Value) error {
		if len(b) > begin+1 {
			b = append(b, ',')
		}
		key, err := entry.children[0].appendJSON(nil, values[:len(entry.children[0].leaves)])
		if err != nil {
			return err
		}
		if key[0] != '"' {
			key, _ = jsontext.AppendQuote(nil, key)
		}
		b = append(append(b, key...), ':')
		b, err = entry.children[1].appendJSON(b, values[len(entry.children[0].leaves):])
		return err
	})
	return append(b, '}'), err
}

// eachElement cuts the values of a repeated column into those of its elements.
func (n *node) eachElement(values [][]parquet.Value, do func([][]parquet.Value) error) error {
	if n.isAbsent(values) {
		return nil
	}
	rest, element := slices.Clone(values), make([][]parquet.Value, len(values))
	for len(rest[0]) > 0 {
		for i, r := range rest {
			if len(r) == 0 {
				return errDisagree
			}
			end := 1
			for end < len(r) && r[end].RepetitionLevel() > n.column.MaxRepetitionLevel() {
				end++
			}
			element[i], rest[i] = r[:end], r[end:]
		}
		if err := do(element); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(rest, func(r []parquet.Value) bool { return len(r) > 0 }) {
		return errDisagree
	}
	return nil
}

// appendValue appends a value by the type of its column.
func (l *leaf) appendValue(b []byte, v parquet.Value) ([]byte, error) {
	if v.IsNull() {
		return append(b, "null"...), nil
	}
	var logical any
	if t := l.column.Type().LogicalType(); t != nil {
		logical = t.Value
	}
	switch t := logical.(type) {
	case *format.DecimalType:
		return appendDecimal(b, v, t.Scale)
	case *format.DateType:
		return time.Unix(86400*int64(v.Int32()), 0).UTC().AppendFormat(b, `"2006-01-02"`), nil
	case *format.TimestampType:
		return appendTime(b, timestamp(t, v.Int64()), t.IsAdjustedToUTC), nil
	case *format.JsonType:
		if value := jsontext.Value(slices.Clone(v.ByteArray())); value.Compact() == nil {
			if !utf8.Valid(value) {
				l.notUTF8++
			}
			return append(b, bytes.ToValidUTF8(value, []byte("\ufffd"))...), nil
		}
	case *format.UUIDType:
		if u := v.ByteArray(); len(u) == 16 {
			return fmt.Appendf(b, `"%x-%x-%x-%x-%x"`, u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
		}
	case *format.IntType:
		if !t.IsSigned && v.Kind() == parquet.Int64 {
			return strconv.AppendUint(b, v.Uint64(), 10), nil
		} else if !t.IsSigned {
			return strconv.AppendUint(b, uint64(v.Uint32()), 10), nil
		}
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(b, v.Boolean()), nil
	case parquet.Int32:
		return strconv.AppendInt(b, int64(v.Int32()), 10), nil
	case parquet.Int64:
		return strconv.AppendInt(b, v.Int64(), 10), nil
	case parquet.Int96: // a time, as older writers have it: nanoseconds of a Julian day
		t := v.Int96()
		return appendTime(b, time.Unix((int64(t[2])-2440588)*86400, int64(uint64(t[1])<<32|uint64(t[0]))), true), nil
	case parquet.Float:
		return appendFloat(b, float64(v.Float()), 32), nil
	case parquet.Double:
		return appendFloat(b, v.Double(), 64), nil
	}
	b, err := jsontext.AppendQuote(b, v.ByteArray())
	if err != nil {
		l.notUTF8++
	}
	return b, nil
}

func timestamp(t *format.TimestampType, n int64) time.Time {
	switch t.Unit.Value.(type) {
	case *format.MilliSeconds:
		return time.UnixMilli(n)
	case *format.MicroSeconds:
		return time.UnixMicro(n)
	}
	return time.Unix(0, n)
}

func appendTime(b []byte, t time.Time, zone bool) []byte {
	layout := `"2006-01-02T15:04:05.999999999"`
	if zone {
		layout = `"` + time.RFC3339Nano + `"`
	}
	return t.UTC().AppendFormat(b, layout)
}

// appendFloat appends a number, null for what JSON has none for.
func appendFloat(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// appendDecimal appends the number that v is without its scale.
func appendDecimal(b []byte, v parquet.Value, scale int32) ([]byte, error) {
	const maxScale = 76 // of 256 bits
	if scale < 0 || scale > maxScale {
		return nil, fmt.Errorf("a decimal number of scale %d", scale)
	}
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, the highest byte first
		bytes := v.ByteArray()
		n.SetBytes(bytes)
		if len(bytes) > 0 && bytes[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))))
		}
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return append(b, new(big.Rat).SetFrac(n, unit).FloatString(int(scale))...), nil
}
