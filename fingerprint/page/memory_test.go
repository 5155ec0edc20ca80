package page

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/testing/testenv"
)

// readHostile reads a page whose parts are separated by "|". The memory from the bytes to the
// signature must be linear in the size of the page. With -short it reads no page.
func readHostile(t *testing.T, parts string) []string {
	if testing.Short() {
		return []string{"linear"}
	}
	size := testenv.Number(1<<19, 1<<19, 1<<20, 1<<20)
	head, rest, _ := strings.Cut(parts, "|")
	fill, tail, _ := strings.Cut(rest, "|")
	body := []byte(head + strings.Repeat(fill, size/len(fill)) + tail)
	for _, mode := range []TextMode{Visible, Main} {
		signer := newSigner(t, mode, fingerprint.Options{})
		var got fingerprint.Signature
		start := time.Now()
		has := false
		peak := uint64(math.MaxUint64)
		// garbage counts until it is collected, which may be late on a busy machine
		for try := 0; try < 3 && peak > 24*uint64(size); try++ {
			peak = min(peak, testenv.PeakHeap(func() {
				signer.withText(HTML, "", body, func(found []byte) {
					got = signer.analyzer.Bytes(found)
					has = bytes.Contains(found, []byte("text"))
				})
			}))
		}
		if got.Tokens == 0 || !has {
			t.Errorf("%s: the text was not found: %+v", mode.name(), got)
		}
		t.Logf("%.1f times the page, %v", float64(peak)/float64(size), time.Since(start))
		if peak > 24*uint64(size) {
			return []string{fmt.Sprintf("%s: %d bytes for a page of %d", mode.name(), peak, size)}
		}
	}
	return []string{"linear"}
}
