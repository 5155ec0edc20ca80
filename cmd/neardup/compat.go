package main

import (
	"context"
	"strconv"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// simhashCPP as -compat stands in for the programs of seomoz/simhash-cpp:
// simhash-find-all and simhash-find-clusters. Their output has the same lines in an
// order that their hash tables give; here it is that of the numbers, for clusters, and
// none, for pairs.
const simhashCPP = "simhash-cpp"

// checkCompat checks the flags as those programs do.
func (f *joinFlags) checkCompat() error {
	switch {
	case f.compat != simhashCPP:
		return usagef("-compat is %q, want %s", f.compat, simhashCPP)
	case f.distance <= 0:
		return usagef("-distance must be given and above 0")
	case f.blocks <= f.distance:
		return usagef("-blocks (%d) must be above -distance (%d)", f.blocks, f.distance)
	case f.blocks > 64:
		return usagef("-blocks is %d, want 64 at most", f.blocks)
	case f.indexes.dir != "":
		return usagef("-compat %s reads decimal numbers, not an index", simhashCPP)
	}
	names := f.lists
	if f.input != "" {
		names = append(names, f.input)
	}
	switch len(names) {
	case 0:
		names = []string{"-"}
	case 1:
	default:
		return usagef("-compat %s reads one input, not %q", simhashCPP, names)
	}
	f.lists, f.inputs.format = names, string(corpus.Decimal)
	return nil
}

// compatSet reads the numbers, of which equal ones count as one.
func (f *joinFlags) compatSet(ctx context.Context) (*selfjoin.Set, error) {
	var fps []fingerprint.Fingerprint
	for list, err := range f.bareList(ctx) {
		if err != nil {
			return nil, err
		}
		fps = append(fps, list...)
	}
	return selfjoin.NewSet(fps)
}

// withCompat writes lines that print makes of the numbers.
func (f *joinFlags) withCompat(ctx context.Context, print func(set *selfjoin.Set, array func(numbers ...uint64) error) error) error {
	set, err := f.compatSet(ctx)
	if err != nil {
		return err
	}
	out, err := f.open()
	if err != nil {
		return err
	}
	var line []byte
	return out.close(print(set, func(numbers ...uint64) error {
		line = appendArray(line[:0], numbers)
		_, err := out.buffer.Write(line)
		return err
	}))
}

// appendArray writes [1, 2] and a newline.
func appendArray(line []byte, numbers []uint64) []byte {
	line = append(line, '[')
	for i, n := range numbers {
		if i > 0 {
			line = append(line, ", "...)
		}
		line = strconv.AppendUint(line, n, 10)
	}
	return append(line, "]\n"...)
}

// compatPairs writes each pair of distinct numbers, the smaller one first.
func (f *joinFlags) compatPairs(ctx context.Context) error {
	if f.memory > 0 {
		return f.externalPairs(ctx, f.bareList(ctx), f.distance, func(line []byte, p *selfjoin.Pair) []byte {
			return appendArray(line, []uint64{uint64(p.First), uint64(p.Second)})
		})
	}
	return f.withCompat(ctx, func(set *selfjoin.Set, array func(...uint64) error) error {
		for p, err := range set.Pairs(ctx, selfjoin.Options{MaxDistance: f.distance}) {
			if err == nil {
				err = array(uint64(p.First), uint64(p.Second))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// compatClusters writes the connected components of two distinct numbers and more.
func (f *joinFlags) compatClusters(ctx context.Context) error {
	if f.memory > 0 {
		return f.compatExternalClusters(ctx)
	}
	return f.withCompat(ctx, func(set *selfjoin.Set, array func(...uint64) error) error {
		clusters, err := set.Components(ctx, selfjoin.Options{MaxDistance: f.distance})
		if err != nil {
			return err
		}
		var numbers []uint64
		for nodes := range clusters.All() {
			if len(nodes) == 1 {
				continue // copies of one number
			}
			numbers = numbers[:0]
			for _, node := range nodes {
				numbers = append(numbers, uint64(set.Fingerprint(node)))
			}
			if err := array(numbers...); err != nil {
				return err
			}
		}
		return nil
	})
}
