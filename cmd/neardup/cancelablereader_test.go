package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/neardup/neardup/internal/testseed"
)

func TestCancelableReaderReadsTheSame(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	want := make([]byte, 1<<20+7)
	for i := range want {
		want[i] = byte(r.Uint64())
	}
	for _, in := range []io.Reader{bytes.NewReader(want), iotest.HalfReader(bytes.NewReader(want)), iotest.DataErrReader(bytes.NewReader(want))} {
		if got, err := io.ReadAll(cancelable(t.Context(), in)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("seed %d: %d bytes: %v", seed, len(got), err)
		}
	}
	broken := errors.New("broken")
	if got, err := io.ReadAll(cancelable(t.Context(), io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))); string(got) != "abc" || err != broken {
		t.Errorf("%q: %v", got, err)
	}
}

func TestCancelableReaderEndsWithTheContext(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	reading := cancelable(ctx, in)
	go out.Write([]byte("abc"))
	var b [10]byte
	if n, err := reading.Read(b[:]); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	time.AfterFunc(time.Millisecond, cancel)
	for range 2 {
		if n, err := reading.Read(b[:]); n != 0 || err != context.Canceled {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A signal ends pairs and clusters that wait for input, and their temporary files go.
func TestSignalEndsPairsThatWaitForInput(t *testing.T) {
	for _, command := range []string{"pairs", "clusters"} {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		t.Setenv("TMP", dir)
		begun := func() bool {
			found, err := filepath.Glob(filepath.Join(dir, "neardup-selfjoin-*"))
			return err == nil && len(found) > 0
		}
		waiting := func(*bufio.Reader) {
			for end := time.Now().Add(time.Minute); !begun() && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
		}
		stdout, _ := interrupted(t, os.Interrupt, "12345678", waiting, command, "-memory", "16", "-format", "u64le", "-")
		if stdout != "" || begun() {
			t.Errorf("%s printed %q, temporary files are left: %v", command, stdout, begun())
		}
	}
}
