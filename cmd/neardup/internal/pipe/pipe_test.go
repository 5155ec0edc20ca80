package pipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
)

func TestCancelableReadsInput(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	want := make([]byte, 1<<20+7)
	for i := range want {
		want[i] = byte(r.Uint64())
	}
	for _, in := range []io.Reader{bytes.NewReader(want), iotest.HalfReader(bytes.NewReader(want)),
		iotest.DataErrReader(bytes.NewReader(want))} {
		if got, err := io.ReadAll(Cancelable(t.Context(), in)); err != nil ||
			!bytes.Equal(got, want) {
			t.Errorf("seed %d: %d bytes: %v", seed, len(got), err)
		}
	}
	broken := errors.New("broken")
	if got, err := io.ReadAll(Cancelable(t.Context(),
		io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))); string(
		got) != "abc" || err != broken {
		t.Errorf("%q: %v", got, err)
	}
}

func TestCancelableReturnsErrorOfContext(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	reading := Cancelable(ctx, in)
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
