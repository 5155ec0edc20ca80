package groups

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/selfjoin"
	"github.com/neardup/neardup/internal/wire"
)

// FuzzMemberOutput compares the JSON object of a member with what encoding/json reads from it.
func FuzzMemberOutput(f *testing.F) {
	for _, key := range []string{"", "a,b", `a"b`, " a", `\.`, "\u00a0a", "a\\b", "<&>", "a\u2028b", "\x7f\u0085", "a\n0\tevil", "\r", "\x1b[31m", "nul\x00", "\xff\xfe", "\u202e", `"`, "é漢😀"} {
		f.Add(key, 1)
	}
	f.Fuzz(func(t *testing.T, key string, documents int) {
		m := Member{Document: index.Document{ID: 7, Key: key, Fingerprint: 0xff}, Documents: documents}
		line, err := wire.Encode(memberLine(&m))
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		var back struct {
			ID          uint64
			Key         string
			KeyBytes    []byte
			Fingerprint string
			Documents   int
		}
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%q in JSON is %s: %v", key, line, err)
		}
		if wantKey := strings.ToValidUTF8(key, "\ufffd"); back.ID != 7 || utf8.ValidString(key) && back.Key != wantKey || back.Fingerprint != "00000000000000ff" || back.Documents != documents ||
			!utf8.ValidString(key) && string(back.KeyBytes) != key {
			t.Errorf("%q in JSON is %s", key, line)
		}
	})
}

// TestPairsOfAsManyWorkers: there are as many goroutines as there are writers, also where the runtime has come to use more
// processors since these were made.
func TestPairsOfAsManyWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	rng := rand.New(rand.NewPCG(1, 1))
	fps := make([]fingerprint.Fingerprint, 100_000)
	for i := range fps {
		if fps[i] = fingerprint.Fingerprint(rng.Uint64()); i%2 == 1 {
			fps[i] = fps[i-1] ^ 1<<rng.IntN(64)
		}
	}
	set, err := selfjoin.NewSet(fps)
	must(t, err)
	s := &listSource{ListOptions: ListOptions{MaxDistance: 3}, set: set}
	var pairs, others atomic.Int64
	err = s.Pairs(t.Context(), 1, func(worker int, _, _ *Member, _ int) error {
		if pairs.Add(1); worker > 0 {
			others.Add(1)
		}
		return nil
	})
	if err != nil || pairs.Load() < 50_000 || others.Load() > 0 {
		t.Errorf("%d pairs, %d of them from other goroutines than the first: %v", pairs.Load(), others.Load(), err)
	}
}
