package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/neardup/neardup/fingerprint"
)

// FuzzDecimals holds the reader of decimal lines to splitting the whole text.
func FuzzDecimals(f *testing.F) {
	f.Add([]byte("1\n18446744073709551615\n\n 7 \r\n"))
	f.Add([]byte("18446744073709551616\n"))
	f.Add([]byte("+1"))
	f.Add([]byte(strings.Repeat("9\n", 9000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.HasPrefix(text, []byte("\x1f\x8b")) || bytes.HasPrefix(text, []byte("\x28\xb5\x2f\xfd")) {
			return // compressed
		}
		var want []fingerprint.Fingerprint
		broken := false
		for _, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			n, err := strconv.ParseUint(line, 10, 64)
			if err != nil {
				broken = true
				break
			}
			want = append(want, fingerprint.Fingerprint(n))
		}
		got, err := inMemory(readDecimals(context.Background(), []string{"-"}, bytes.NewReader(text)))
		if (err != nil) != broken || !broken && !slices.Equal(got, want) {
			t.Errorf("%d fingerprints, %v; want %d, broken %v", len(got), err, len(want), broken)
		}
	})
}

// FuzzWords holds the reader of fingerprints of 8 bytes to decoding the whole.
func FuzzWords(f *testing.F) {
	f.Add([]byte("12345678abcdefgh"))
	f.Add([]byte("123456789"))
	f.Add([]byte(""))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00")) // a number that begins as a compressed file does
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "list.u64le")
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := inMemory(readWords(context.Background(), []string{name}, nil))
		if (err != nil) != (len(data)%8 != 0) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
		for i := range got {
			if want := binary.LittleEndian.Uint64(data[8*i:]); uint64(got[i]) != want {
				t.Fatalf("fingerprint %d is %v, want %x", i, got[i], want)
			}
		}
		if err == nil && len(got) != len(data)/8 {
			t.Errorf("%d fingerprints of %d bytes", len(got), len(data))
		}
	})
}
