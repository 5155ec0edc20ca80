package beam

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// written writes fingerprints into a file of a format.
func written(t *testing.T, r *rand.Rand, format Format, fps []fp) string {
	t.Helper()
	var data []byte
	for i, f := range fps {
		end := []string{"\n", "\r\n", "\n\n"}[r.IntN(3)]
		if i == len(fps)-1 {
			end = ""
		}
		switch format {
		case U64LE:
			data = binary.LittleEndian.AppendUint64(data, uint64(f))
		case Lines:
			data = fmt.Appendf(data, "%v\tkey of %d%s", f, i, end)
		default:
			data = fmt.Appendf(data, `{"key":"%d","fingerprint":"%v"}%s`, i, f, end)
		}
	}
	return writtenAs(t, data)
}

func writtenAs(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, data, 0o600))
	return file
}

// readAll reads a file in parts of the given length.
func readAll(file string, format Format, length int64) (fps []fp, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	d := &divide{Format: format, Length: length}
	if e := d.ProcessElement(ctx, fileio.FileMetadata{Path: file, Size: info.Size()},
		func(part shard) {
			err = errors.Join(err, (&read{}).ProcessElement(ctx, part,
				func(b Batch) { fps = append(fps, b.Fingerprints...) }))
		}); e != nil {
		return nil, e
	}
	return fps, err
}

// TestPartsHaveEachLineOnce tests that each fingerprint is read once, wherever a file is divided.
func TestPartsHaveEachLineOnce(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	fps := make([]fp, 50)
	for i := range fps {
		fps[i] = fp(r.Uint64())
	}
	for _, format := range []Format{U64LE, Lines, JSONL} {
		for _, n := range []int{0, 1, 2, 3, 50} {
			file := written(t, r, format, fps[:n])
			for _, length := range []int64{8, 16, 24, 40, 104, 1024} {
				if got, err := readAll(file, format, length); err != nil ||
					!slices.Equal(got, fps[:n]) {
					t.Fatalf("seed %d, %s, %d fingerprints in parts of %d: %d, %v", seed, format, n,
						length, len(got), err)
				}
			}
		}
	}
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		data   string
		want   error
		says   string
	}{
		{"a truncated number", U64LE, "123456789", ErrFormat, "9 bytes"},
		{"no fingerprint", Lines, "00000000000000ff\nnonsense\n", ErrFormat, "line at 17"},
		{"no JSON", JSONL, "{\"fingerprint\":\"00000000000000ff\"}\nnonsense\n",
			ErrFormat, "line at 35"},
		{"an object without one", JSONL, "{}\n", ErrFormat, `no "fingerprint"`},
		{"a long line", Lines, strings.Repeat("0", maxLine+1), ErrFormat, "line at 0"},
	} {
		file := writtenAs(t, []byte(c.data))
		if _, err := readAll(file, c.format, 1<<20); !errors.Is(err, c.want) ||
			!strings.Contains(fmt.Sprint(err), c.says) || !strings.Contains(fmt.Sprint(err), file) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for pattern, says := range map[string]string{filepath.Join(t.TempDir(),
		"none-*"): "no files matching", "nonsense://file": "nonsense"} {
		p := newPipeline(t)
		Read(p.root, Lines, pattern)
		if _, err := prism.Execute(t.Context(), p.Pipeline); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, ErrFormat) {
			t.Errorf("an unknown format: %v", err)
		}
	}()
	Read(newPipeline(t).root, "parquet", "x")
}

// TestFilesThroughAPipeline reads patterns and writes several files, including files without
// lines.
func TestFilesThroughAPipeline(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	fps := make([]fp, 3000)
	for i := range fps {
		fps[i] = fp(r.Uint64N(1 << 20))
	}
	for _, files := range []int{1, 3} {
		p := newPipeline(t)
		first, second := written(t, r, Lines, fps[:1000]), written(t, r, Lines, fps[1000:])
		found := Pairs(p.root, Options{MaxDistance: 2},
			Read(p.root, Lines, first, filepath.Join(filepath.Dir(second), "*")))
		output := filepath.Join(t.TempDir(), "out")
		Write(p.root, output, files, JSON(p.root, found))
		none := filepath.Join(t.TempDir(), "none")
		Write(p.root, none, files, JSON(p.root, Pairs(p.root, Options{}, p.batches(fps, 100))))
		p.run()
		for name, want := range map[string][]string{output: pairLines(brutePairs(fps, 2)),
			none: nil} {
			names := []string{name}
			if files > 1 {
				names, _ = filepath.Glob(name + "-0000[0-2]-of-00003")
			}
			if got := linesOf(t, names...); len(names) != files || !slices.Equal(got, want) {
				t.Errorf("%d of %d files with %d lines, want %d", len(names), files,
					len(got), len(want))
			}
		}
	}
}
