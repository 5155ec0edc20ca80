package filter

import (
	"math/bits"
	"sync/atomic"
)

// stats describe a prefix filter.
type stats struct {
	Form  string `json:"form"`  // none, bits or blocked
	Bytes int64  `json:"bytes"` // in memory
	// Full is the share of its bits that are set. A blocked filter that was made
	// large enough for what it holds has less than half.
	Full float64 `json:"full"`
	// FalsePositives is the probability of a yes for a prefix that has nothing in
	// common with those that were added: 0 for a bit array, 1 for no filter.
	FalsePositives float64 `json:"falsePositives"`
}

// statsLines is the number of lines that Stats looks at, spread evenly.
const statsLines = 4096

// Stats estimates how full the filter is from a sample of it: 256 KiB are read.
func (f *Prefix) stats() stats {
	s := stats{Bytes: int64(len(f.lines)) * lineBytes}
	n := min(statsLines, len(f.lines))
	for i := range n {
		high, low := bits.Mul64(uint64(i), uint64(len(f.lines)))
		at, _ := bits.Div64(high, low, uint64(n))
		full, yes := f.lines[at].full()
		s.Full += full / float64(n)
		s.FalsePositives += yes / float64(n)
	}
	switch f.form {
	case filterNone:
		s.Form, s.FalsePositives = "none", 1
	case filterBits:
		s.Form, s.FalsePositives = "bits", 0
		if f.prefix < 9 {
			s.Full *= 512 / float64(uint64(1)<<f.prefix)
		}
	case filterBlocked:
		s.Form = "blocked"
	}
	return s
}

// full returns the share of bits that are set, and the probability that one bit
// at random in each word is set in all of them.
func (l *line) full() (share, all float64) {
	all = 1
	for j := range l {
		word := float64(bits.OnesCount64(atomic.LoadUint64(&l[j]))) / 64
		share += word / float64(len(l))
		all *= word
	}
	return share, all
}
