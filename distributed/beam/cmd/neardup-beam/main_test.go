package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	neardup "github.com/neardup/neardup/distributed/beam"
	"github.com/neardup/neardup/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// TestPairsEqualNeardup tests that neardup-beam finds the same pairs as neardup.
func TestPairsEqualNeardup(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	var data []byte
	var fps []uint64
	for i := range 50_000 {
		f := r.Uint64()
		if i > 0 && r.IntN(5) == 0 {
			f = fps[r.IntN(i)]
			for range r.IntN(5) {
				f ^= 1 << r.IntN(64)
			}
		}
		fps = append(fps, f)
		data = binary.LittleEndian.AppendUint64(data, f)
	}
	dir := t.TempDir()
	list, output := filepath.Join(dir, "list.u64le"), filepath.Join(dir, "out")
	testenv.Must(t, os.WriteFile(list, data, 0o600))
	if err := run([]string{"pairs", "-k", "4", "-memory", "64", "-o", output, list}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(output)
	testenv.Must(t, err)
	one := exec.Command("go", "run", "./cmd/neardup", "pairs", "--max-distance", "4", list)
	one.Dir = "../../../.."
	one.Stderr = os.Stderr
	want, err := one.Output()
	testenv.Must(t, err)
	if got, want := ascending(got), ascending(want); !slices.Equal(got, want) {
		t.Errorf("%d pairs, want %d", len(got), len(want))
	}
	if len(want) < 1000 {
		t.Errorf("too few pairs: %s", want)
	}
}

var pairPattern = regexp.MustCompile(
	`"fingerprint":"([^"]*)".*"fingerprint":"([^"]*)".*"distance":([0-9]+)`)

// ascending returns the fingerprints and the distance of each line of pairs, sorted, with the
// smaller fingerprint first.
func ascending(lines []byte) []string {
	var pairs []string
	for _, pair := range pairPattern.FindAllStringSubmatch(string(lines), -1) {
		slices.Sort(pair[1:3])
		pairs = append(pairs, strings.Join(pair[1:], ","))
	}
	slices.Sort(pairs)
	return pairs
}

func TestBadArguments(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		args []string
		want error
	}{
		{nil, errUsage},
		{[]string{"pairs", "-o", output}, errUsage},
		{[]string{"pears", "-o", output, "x"}, errUsage},
		{[]string{"scan", "-k", "3", "-o", output, "x"}, errUsage},
		{[]string{"pairs", "-k", "65", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-k", "-1", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"scan", "-k", "17", "-queries", "x", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-k", "3", "-groups", "3", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-groups", "-4", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-groups", "131072", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-groups", "4", "-memory", "15", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-memory", "64", "-files", "0", "-o", output, "x"}, neardup.ErrOptions},
		{[]string{"pairs", "-files", "1", "-format", "parquet", "-o", output, "x"},
			neardup.ErrFormat},
	} {
		if err := run(c.args); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.args, err, c.want)
		}
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("the output exists")
	}
}

func TestMemoryIsANumber(t *testing.T) {
	if err := flag.Set("memory", "12abc"); err == nil {
		t.Error("12abc was accepted")
	}
}
