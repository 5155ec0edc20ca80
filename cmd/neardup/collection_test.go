package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/corpus"
)

type listed struct {
	number, fp uint64
	key        string
}

// listedIn reads a file in segments of so many bytes.
func listedIn(t testing.TB, name string, lines bool, segment int) (all []listed, skipped int64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	c := &collection{call: &call{streams: &streams{err: io.Discard}}, name: name}
	s := &segments{collection: c, file: f, size: info.Size(), lines: lines, bytes: segment, do: func(p *part) error {
		mu.Lock()
		defer mu.Unlock()
		for i, fp := range p.fps {
			all = append(all, listed{p.number(i), fp, p.key(i)})
		}
		return nil
	}}
	if err := s.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(a.number, b.number) })
	if int64(len(all)) != s.read.Load() {
		t.Fatalf("%d fingerprints, %d are counted", len(all), s.read.Load())
	}
	return all, s.skipped.Load()
}

func TestCollectionOfLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, begin := range []string{"", "\xef\xbb\xbf"} {
		var text bytes.Buffer
		text.WriteString(begin)
		var want []listed
		bad := int64(0)
		for number := uint64(1); number <= 3000; number++ {
			fp, key := rng.Uint64()>>rng.IntN(64), ""
			end := []string{"\n", "\r\n"}[rng.IntN(2)]
			if number == 3000 {
				end = ""
			}
			if rng.IntN(3) == 0 {
				key = strings.Repeat("k", 1+rng.IntN(9)) + "\tx"
			}
			switch c := rng.IntN(6); {
			case c == 0 && number < 3000:
				text.WriteString(end)
				continue
			case c == 1:
				text.WriteString("no fingerprint" + end)
				bad++
				continue
			case c == 2:
				fmt.Fprintf(&text, "0x%x", fp)
			case c == 3:
				fp = fp>>8 + 1 // not 16 digits
				fmt.Fprintf(&text, "%d", fp%1e15)
				fp %= 1e15
			case c == 4:
				fmt.Fprintf(&text, "%016X", fp)
			default:
				fmt.Fprintf(&text, "%016x", fp)
			}
			if key != "" {
				text.WriteString("\t" + key)
			}
			text.WriteString(end)
			want = append(want, listed{number, fp, key})
		}
		name := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, segment := range []int{64, 100, 4096, segmentBytes} {
			got, skipped := listedIn(t, name, true, segment)
			if !slices.Equal(got, want) || skipped != bad {
				t.Fatalf("segments of %d: %d fingerprints and %d skipped, want %d and %d", segment, len(got), skipped, len(want), bad)
			}
		}
	}
}

func TestCollectionOfWords(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 4099} {
		data := make([]byte, n)
		rng := rand.New(rand.NewPCG(4, uint64(n)))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		var want []listed
		for i := 0; i+8 <= n; i += 8 {
			want = append(want, listed{number: uint64(i/8 + 1), fp: binary.LittleEndian.Uint64(data[i:])})
		}
		name := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, segment := range []int{64, 4096, segmentBytes} {
			got, skipped := listedIn(t, name, false, segment)
			if !slices.Equal(got, want) || (skipped == 1) != (n%8 != 0) {
				t.Fatalf("%d bytes in segments of %d: %d fingerprints and %d skipped", n, segment, len(got), skipped)
			}
		}
	}
}

func TestCollectionRefusesALongLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(name, bytes.Repeat([]byte{'7'}, segmentBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &collection{call: &call{streams: &streams{err: io.Discard}}, name: name, format: corpus.Fingerprints}
	_, err := c.each(context.Background(), func(*part) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "at byte 0: a line of more than") {
		t.Error(err)
	}
}

func FuzzCollectionOfLines(f *testing.F) {
	f.Add([]byte("0123456789abcdef\tkey\r\n\n0x7\n12\n"))
	f.Add([]byte("\xef\xbb\xbf\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := bytes.Count(data, []byte{'\n'}) + 1
		name := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, skipped := listedIn(t, name, true, len(data)+1)
		if len(got)+int(skipped) > lines {
			t.Fatalf("%d fingerprints and %d skipped in %d lines", len(got), skipped, lines)
		}
		for i, l := range got {
			if i > 0 && l.number <= got[i-1].number || l.number > uint64(lines) || strings.Contains(l.key, "\n") {
				t.Fatalf("%d lines: %+v", lines, got)
			}
		}
	})
}
