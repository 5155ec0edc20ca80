package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// ErrNotFlat is what Soak returns when memory grows, or disk grows for the same number
// of documents.
var ErrNotFlat = errors.New("memory or disk grew")

// SoakReport is what Soak found.
type SoakReport struct {
	Machine Machine      `json:"machine"`
	Options SoakOptions  `json:"options"`
	Seconds float64      `json:"seconds"`
	Calls   []SoakCalls  `json:"calls"`
	Samples []SoakSample `json:"samples"`

	// Medians over a stretch of samples in the middle and over the last ones, as flat
	// has them; 0: there were too few.
	MemoryMiddle uint64  `json:"memoryMiddle"`
	MemoryEnd    uint64  `json:"memoryEnd"`
	DiskMiddle   float64 `json:"diskMiddle"` // bytes a document, right after compactions
	DiskEnd      float64 `json:"diskEnd"`
	DiskMost     uint64  `json:"diskMost"`
}

// SoakCalls are the calls of one kind.
type SoakCalls struct {
	Kind         string  `json:"kind"`
	Calls        int64   `json:"calls"`
	Items        int64   `json:"items"` // documents, keys or fingerprints
	P50          float64 `json:"p50"`   // seconds
	P99          float64 `json:"p99"`
	P999         float64 `json:"p999"`
	Longest      float64 `json:"longest"`
	CallsASecond float64 `json:"callsASecond"`
}

// SoakSample is the state at one moment, after what was done to the whole index.
type SoakSample struct {
	Seconds   float64 `json:"seconds"`
	After     string  `json:"after"`
	Calls     int64   `json:"calls"` // of workers, since the begin
	Documents uint64  `json:"documents"`
	Memory    uint64  `json:"memory"` // of the process, with the model
	Disk      uint64  `json:"disk"`   // of all files of the index
}

// sample notes how things are.
func (s *soak) sample(after string) error {
	now, _ := memory()
	disk, err := folderBytes(s.dir)
	if err != nil {
		return err
	}
	sample := SoakSample{
		Seconds: time.Since(s.begun).Seconds(), After: after, Calls: s.done.Load(),
		Documents: s.index.Stats().Documents, Memory: uint64(now), Disk: disk,
	}
	s.report.Samples = append(s.report.Samples, sample)
	if s.Logf != nil {
		s.Logf("%-10s %10d calls %9d documents %8.1f MiB memory %8.1f MiB disk", after, sample.Calls, sample.Documents,
			float64(now)/(1<<20), float64(disk)/(1<<20))
	}
	return nil
}

// folderBytes adds up the files in a folder. Some may go while it looks.
func folderBytes(dir string) (bytes uint64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err == nil {
			bytes += uint64(info.Size())
		}
		return ignoreGone(err)
	})
	return bytes, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *soak) measureCalls() {
	names := make([]string, 0, len(s.times))
	for _, kind := range soakKinds {
		names = append(names, kind.name)
	}
	for _, kind := range soakUpkeep {
		names = append(names, kind.name)
	}
	for _, name := range append(names, compareAll, verifyAll) {
		l := s.times[name]
		if l == nil || l.n == 0 {
			continue
		}
		s.report.Calls = append(s.report.Calls, SoakCalls{
			Kind: name, Calls: l.n, Items: l.items, P50: l.quantile(.5).Seconds(), P99: l.quantile(.99).Seconds(),
			P999: l.quantile(.999).Seconds(), Longest: l.most.Seconds(), CallsASecond: float64(l.n) / s.report.Seconds,
		})
	}
}

// Growth of the medians that is let pass: a share, for the noise of the garbage collector
// and of caches that fill, and an amount, for small runs.
const (
	memoryGrowth = 1.2
	memorySlack  = 32 << 20
	diskGrowth   = 1.2
	diskSlack    = 64 // bytes a document
)

// fewestSamples are those from which flat is judged.
const fewestSamples = 24

// flat compares the last quarter of the samples with the second one; in the first,
// the index and the caches fill.
func (r *SoakReport) flat() error {
	for _, s := range r.Samples {
		r.DiskMost = max(r.DiskMost, s.Disk)
	}
	if len(r.Samples) < fewestSamples {
		return nil
	}
	quarter := len(r.Samples) / 4
	middle, end := r.Samples[quarter:2*quarter], r.Samples[len(r.Samples)-quarter:]
	r.MemoryMiddle, r.MemoryEnd = uint64(medianOf(middle, SoakSample.memory)), uint64(medianOf(end, SoakSample.memory))
	r.DiskMiddle, r.DiskEnd = medianOf(middle, SoakSample.packedDisk), medianOf(end, SoakSample.packedDisk)
	if float64(r.MemoryEnd) > memoryGrowth*float64(r.MemoryMiddle)+memorySlack {
		return fmt.Errorf("%w: memory from %d to %d bytes", ErrNotFlat, r.MemoryMiddle, r.MemoryEnd)
	}
	if r.DiskEnd > diskGrowth*r.DiskMiddle+diskSlack {
		return fmt.Errorf("%w: disk from %.1f to %.1f bytes a document after compaction", ErrNotFlat, r.DiskMiddle, r.DiskEnd)
	}
	return nil
}

func (s SoakSample) memory() float64 { return float64(s.Memory) }

// packedDisk is the disk a document after a compaction, below 0 otherwise.
func (s SoakSample) packedDisk() float64 {
	if s.After != "compact" || s.Documents == 0 {
		return -1
	}
	return float64(s.Disk) / float64(s.Documents)
}

// medianOf leaves out what is below 0.
func medianOf(samples []SoakSample, of func(SoakSample) float64) float64 {
	var values []float64
	for _, s := range samples {
		if v := of(s); v >= 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// WriteJSON writes the report as one JSON object.
func (r *SoakReport) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// WriteTable writes the report for reading.
func (r *SoakReport) WriteTable(w io.Writer) error {
	o := r.Options
	_, err := fmt.Fprintf(w, "%v\n%.0f s, %d workers, %d documents, k = %d, seed %d, cache %d MiB, sync %t\n\n%-22s %10s %12s %10s %10s %10s %10s %10s\n",
		r.Machine, r.Seconds, o.Workers, o.Documents, o.MaxDistance, o.Seed, o.CacheBytes>>20, !o.NoSync,
		"call", "calls", "items", "a second", "p50 ms", "p99 ms", "p99.9 ms", "longest")
	if err != nil {
		return err
	}
	for _, c := range r.Calls {
		if _, err := fmt.Fprintf(w, "%-22s %10d %12d %10.1f %10.3f %10.3f %10.3f %10.3f\n", c.Kind, c.Calls, c.Items, c.CallsASecond,
			c.P50*1e3, c.P99*1e3, c.P999*1e3, c.Longest*1e3); err != nil {
			return err
		}
	}
	if r.MemoryMiddle > 0 {
		_, err = fmt.Fprintf(w, "\nmemory: %.1f MiB, at the end %.1f MiB\ndisk after a compaction: %.1f bytes a document, at the end %.1f; at most %.1f MiB in all\n",
			float64(r.MemoryMiddle)/(1<<20), float64(r.MemoryEnd)/(1<<20), r.DiskMiddle, r.DiskEnd, float64(r.DiskMost)/(1<<20))
	}
	return err
}
