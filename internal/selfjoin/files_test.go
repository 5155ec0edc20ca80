package selfjoin

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestRecordFilesSayWhatIsWrong: a file that was cut, and one that takes no more.
func TestRecordFilesSayWhatIsWrong(t *testing.T) {
	scratch, err := newScratch(t.TempDir()) // whose files the test closes
	must(t, err)
	f := newRecordFile[[2]uint64](scratch, bufferBytes)
	for i := range uint64(10_000) {
		must(t, f.add([2]uint64{i, ^i}))
	}
	n := uint64(0)
	for records, err := range f.all() {
		for _, r := range records {
			if err != nil || r != [2]uint64{n, ^n} {
				t.Fatalf("record %d is %v: %v", n, r, err)
			}
			n++
		}
	}
	if n != 10_000 {
		t.Errorf("%d records", n)
	}
	must(t, os.Truncate(f.file.Name(), 100_001))
	for _, err = range f.all() {
		if err != nil {
			break
		}
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), f.file.Name()+" at byte 100001") {
		t.Errorf("a file that was cut: %v", err)
	}
	must(t, f.file.Close())
	err = nil
	for i := 0; i < 10_000 && err == nil; i++ {
		err = f.add([2]uint64{})
	}
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that takes no more: %v", err)
	}
}

// TestExternalReadsNoMoreThanItsContext: a source may have no end.
func TestExternalReadsNoMoreThanItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	parts := 0
	endless := func(yield func([]fp, error) bool) {
		for parts < 1000 && yield([]fp{fp(parts)}, nil) {
			if parts++; parts == 10 {
				cancel()
			}
		}
	}
	err := ExternalPairs(ctx, endless, Options{MaxDistance: 2, Dir: t.TempDir()}, func(int, []Pair) error { return nil })
	if !errors.Is(err, context.Canceled) || parts > 20 {
		t.Errorf("%d parts were read, then %v", parts, err)
	}
}
