package index

import "github.com/neardup/neardup/index/match"

// Defaults of the Options that say what matches.
const (
	DefaultMaxShingleDistance = 16
	DefaultMaxLengthRatio     = 1.3
)

// ErrRatio: a MaxLengthRatio is no number, or one that no two lengths are within.
var ErrRatio = match.ErrRatio

// rule of verdicts, and of queries that give a Shingle or a length.
func (x *Index) rule() match.Rule { return x.opts.rule(x.plan.MaxDistance) }

func (o *Options) rule(k int) match.Rule {
	return match.Rule{MaxDistance: k, MaxShingleDistance: DefaultMaxShingleDistance, MaxLengthRatio: DefaultMaxLengthRatio}.
		With(o.MaxShingleDistance, o.MaxLengthRatio)
}
