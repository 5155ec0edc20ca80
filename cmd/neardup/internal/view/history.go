package view

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/neardup/neardup/index"
)

// Counts is what a server has counted since it began.
type Counts struct {
	Verdicts map[string]uint64
	Calls    map[string]Latency
}

// Latency is how long calls of one kind took.
type Latency struct {
	N      uint64
	Within []Bucket // ascending
}

// Bucket counts the calls that took at most so many seconds.
type Bucket struct {
	Seconds float64
	N       uint64
}

// since is what came after an earlier count.
func (l Latency) since(before Latency) Latency {
	d := Latency{N: l.N - before.N}
	for i, b := range l.Within {
		if i < len(before.Within) {
			b.N -= before.Within[i].N
		}
		d.Within = append(d.Within, b)
	}
	return d
}

// quantile is that of the times, as far as the buckets tell; NaN where there was no call.
func (l Latency) quantile(q float64) float64 {
	if l.N == 0 {
		return math.NaN()
	}
	rank, below, from := q*float64(l.N), 0.0, 0.0
	for _, b := range l.Within {
		if n := float64(b.N); n >= rank && n > below {
			return from + (b.Seconds-from)*(rank-below)/(n-below)
		}
		below, from = float64(b.N), b.Seconds
	}
	return from
}

// moment is how things were.
type moment struct {
	at     time.Time
	stats  index.Stats
	counts Counts
}

// history is moments, evenly spaced: when there are too many, every other one goes. So it reaches back
// to the start in bounded memory.
type history struct {
	mu      sync.Mutex
	moments []moment
	every   time.Duration
}

const (
	// SampleTime is how often Sample is to be called.
	SampleTime = 5 * time.Second
	maxMoments = 480
)

// Sample remembers how things are now, for the charts.
func (p *Pages) Sample(now time.Time) {
	m := p.now(now)
	h := &p.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.moments); n > 0 && now.Sub(h.moments[n-1].at) < h.every {
		return
	}
	if h.moments = append(h.moments, m); len(h.moments) > maxMoments {
		kept := h.moments[:0]
		for i := 0; i < len(h.moments); i += 2 {
			kept = append(kept, h.moments[i])
		}
		clear(h.moments[len(kept):])
		h.moments = kept
		h.every = kept[len(kept)-1].at.Sub(kept[0].at) / time.Duration(len(kept)) // a little less than between two
	}
}

func (p *Pages) now(at time.Time) moment {
	m := moment{at: at, stats: p.source.Stats()}
	if p.opts.Counts != nil {
		m.counts = p.opts.Counts()
	}
	return m
}

// all is the history up to now.
func (p *Pages) all() []moment {
	p.history.mu.Lock()
	moments := slices.Clone(p.history.moments)
	p.history.mu.Unlock()
	return append(moments, p.now(time.Now()))
}
