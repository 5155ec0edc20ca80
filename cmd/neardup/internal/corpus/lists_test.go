package corpus

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
)

// listed is a fingerprint of a list.
type listed struct {
	number uint64
	fp     fingerprint.Fingerprint
	key    string
}

// pieces limits the number of bytes that each Read returns.
type pieces struct {
	io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }

// readChunks reads a list. It checks the totals, and that the work on a chunk is done before the
// chunk is yielded.
func readChunks(
	t testing.TB, opts Options, name string, in io.Reader,
) (all []listed, skips []Record, broken error) {
	t.Helper()
	opts.Stdin = in
	r := newReader(t, opts, name)
	var worked atomic.Int64
	work := func(c *Chunk) error {
		worked.Add(int64(len(c.Fingerprints) + len(c.Skips())))
		return nil
	}
	for c, err := range r.Chunks(t.Context(), work) {
		must(t, err)
		for i, fp := range c.Fingerprints {
			all = append(all, listed{c.Number(i), fp, c.Key(i)})
		}
		if skips = append(skips, c.Skips()...); int(worked.Load()) < len(all)+len(skips) {
			t.Fatalf("work was done on %d of %d", worked.Load(), len(all)+len(skips))
		}
	}
	if totals := r.Totals(); totals.Documents != int64(len(all)) ||
		totals.Records-totals.Documents != int64(len(skips)) {
		t.Fatalf("%d fingerprints and %d skips, but the totals are %+v", len(all),
			len(skips), totals)
	}
	return all, skips, r.Broken()
}

// checkList compares a list, read as chunks and as records in pieces of the given size, with the
// fingerprints that splitting the whole text returns.
func checkList(t testing.TB, format Format, text string, size int) {
	t.Helper()
	n, _ := notationOf(firstLines(text, notationLines, true))
	var want []listed
	bad := 0
	for i, line := range strings.Split(strings.TrimPrefix(text, byteOrderMark), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		digits, key, _ := strings.Cut(strings.TrimSuffix(line, "\r"), "\t")
		fp, err := n.parse(digits)
		if format == Decimal {
			key = ""
			fp, err = parseDecimal(line)
		}
		if err != nil {
			bad++
			continue
		}
		want = append(want, listed{uint64(i + 1), fp, UnquoteKey(key)})
	}
	got, skips, broken := readChunks(t, Options{Format: format}, "-",
		pieces{strings.NewReader(text), size})
	if !slices.Equal(got, want) || len(skips) != bad || broken != nil {
		t.Fatalf("%s in pieces of %d: %d fingerprints and %d skips, want %d and %d; %v", format,
			size, len(got), len(skips), len(want), bad, broken)
	}
	checkRecords(t, Options{Format: format}, text, want, bad)
}

// checkRecords checks that a list has the same fingerprints and number of skips as records.
func checkRecords(t testing.TB, opts Options, text string, want []listed, bad int) {
	t.Helper()
	for _, rec := range readString(t, opts, text) {
		switch {
		case rec.Skip != nil && rec.Skip.Reason == noRecords:
		case rec.Skip != nil:
			bad--
		case len(want) == 0 || rec.Fingerprint != want[0].fp || rec.Key != want[0].key:
			t.Fatalf("record %+v; %d fingerprints are left", rec, len(want))
		default:
			want = want[1:]
		}
	}
	if len(want) != 0 || bad != 0 {
		t.Fatalf("%d fingerprints and %d skips are missing in the records", len(want), bad)
	}
}

func TestChunksOfLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	text := byteOrderMark + "0x1\n"
	for range 3000 {
		fp := rng.Uint64() >> rng.IntN(64)
		text += []string{"", "words", fmt.Sprintf("0x%x", fp), fmt.Sprint(fp % 1e15),
			fmt.Sprintf("%016X", fp), fmt.Sprintf("%016x", fp)}[rng.IntN(6)]
		if rng.IntN(3) == 0 {
			text += "\t" + strings.Repeat("k", 1+rng.IntN(9)) + "\tx"
		}
		text += []string{"\n", "\r\n"}[rng.IntN(2)]
	}
	for _, size := range []int{1, 64, 100, 4096, 1 << 30} {
		checkList(t, Fingerprints, text+"7", size)
	}
}

// The examples of notations in docs/inputs.md are the same fingerprint.
func TestNotationsInDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/inputs.md")
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Lists of fingerprints\n")
	rows := regexp.MustCompile("(?m)^\\| .* \\| `(.*)` \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) != 5 {
		t.Errorf("%d rows, want 5", len(rows))
	}
	for _, row := range rows {
		check(t, readString(t, Options{Format: Fingerprints}, row[1]), " 8f373714acfcf4d0")
	}
}

// A document in a list is an error with its line.
func TestDocumentInAList(t *testing.T) {
	for _, lines := range []int{0, 1, 100_000} {
		text := strings.Repeat(`{"fingerprint":"0x1"}`+"\n", lines) + `{"url":"u","text":"words"}` +
			"\n" + `{"fingerprint":"0x1"}`
		var failed error
		for _, err := range newReader(t, Options{Format: JSONL, Stdin: strings.NewReader(text)},
			"-").Chunks(t.Context(), nil) {
			failed = err
		}
		if !errors.Is(failed, ErrNotFingerprint) ||
			!strings.Contains(failed.Error(), fmt.Sprintf("- line %d byte ", lines+1)) {
			t.Errorf("after %d lines: %v", lines, failed)
		}
	}
}

// A verdict in a list is a skip, since its ID is not the key of the document.
func TestVerdictInAList(t *testing.T) {
	all, skips, err := readChunks(t, Options{Format: JSONL}, "-", strings.NewReader(
		`{"key":"u","fingerprint":"0123456789abcdef","verdict":"new","id":1}`+"\n"+
			`{"key":"v","fingerprint":"0123456789abcdef"}`))
	if err != nil || len(all) != 1 || all[0].key != "v" || len(skips) != 1 ||
		skips[0].Skip.Reason != "output of neardup" {
		t.Errorf("%v, %s (%v)", all, brief(skips), err)
	}
}

// The end of the context, and an error of the work, end the sequence of chunks.
func TestChunksEnd(t *testing.T) {
	reader := func() *Reader {
		return newReader(t, Options{Format: Fingerprints,
			Stdin: strings.NewReader(strings.Repeat("0123456789abcdef\n", 200_000))}, "-", "-")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, last = range reader().Chunks(ctx, nil) {
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("canceled: %v", last)
	}
	stop := errors.New("stop")
	for _, last = range reader().Chunks(t.Context(), func(*Chunk) error { return stop }) {
	}
	if !errors.Is(last, stop) {
		t.Errorf("error of the work: %v", last)
	}
}

func FuzzLists(f *testing.F) {
	for _, seed := range []string{
		"0123456789abcdef\tkey\r\n\n0x7\n12\n", byteOrderMark + "\n", "x\t\t\n", "1\t\"a\\nb\"\n",
		"1\n18446744073709551615\n\n 7 \r\n", "18446744073709551616\n",
		"+1", strings.Repeat("9\n", 9000), "00000000000000040\n0A",
		"5\thttp://example.org/\n 7 8\n", "D\tkey\r\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// The first piece may look like UTF-16, but the whole text may not.
		mayBeUTF16 := len(text) > 1 && (min(text[0], text[1]) == 0 || text[0]|text[1] == 0xff)
		if !mayBeUTF16 && !isCompressed(text) {
			checkList(t, Fingerprints, string(text), len(text)/2+1)
			checkList(t, Decimal, string(text), len(text)/3+1)
		}
	})
}

// FuzzWords decodes a file of fingerprints of 8 bytes at once, and compares the result with the
// fingerprints that the reader returns.
func FuzzWords(f *testing.F) {
	f.Add([]byte("12345678abcdefgh"))
	f.Add([]byte("123456789"))
	f.Add([]byte(""))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00")) // begins like a gzip file
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "list.u64le")
		must(t, os.WriteFile(name, data, 0o600))
		got, skips, broken := readChunks(t, Options{}, name, nil)
		if (broken != nil) != (len(data)%8 != 0) || len(skips) != min(1, len(data)%8) ||
			len(got) != len(data)/8 {
			t.Fatalf("%d bytes: %d fingerprints, %d skips, %v", len(data), len(got),
				len(skips), broken)
		}
		for i, l := range got {
			if want := binary.LittleEndian.Uint64(data[8*i:]); uint64(l.fp) != want ||
				l.number != uint64(i+1) {
				t.Fatalf("fingerprint %d is %+v, want %x", i, l, want)
			}
		}
	})
}

// The end of the loop does not wait for a pipe without data.
func TestChunksOfAPipe(t *testing.T) {
	enough := errors.New("enough")
	for name, work := range map[string]func(*Chunk) error{"the loop": nil,
		"the work": func(*Chunk) error { return enough }} {
		in, out := io.Pipe()
		defer out.Close()
		go out.Write([]byte("00000000000000ff\n"))
		r := newReader(t, Options{Stdin: in, Format: Fingerprints}, "-")
		stopped := make(chan error)
		go func() {
			for c, err := range r.Chunks(t.Context(), work) {
				if err == nil && len(c.Fingerprints) != 1 {
					t.Errorf("%s: %v", name, c)
				}
				stopped <- cmp.Or(err, enough)
				break
			}
		}()
		select {
		case err := <-stopped:
			if err != enough {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s waits for the pipe", name)
		}
	}
}
