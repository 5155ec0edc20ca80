package corpus

import (
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestArchives compares the documents of real archives with hashes from earlier versions. Package
// net/http finds the same documents in these archives.
func TestArchives(t *testing.T) {
	for name, want := range map[string]struct {
		records   int64
		documents int
		hash      uint64 // of all documents
	}{
		"testdata/sample.warc.gz":    {40, 13, 0x1cefea56872783e1},
		"testdata/sample.wet.gz":     {7, 6, 0x7b7c0156278125c1},
		"warc/aut-example.warc.gz":   {822, 129, 0x7a62ea50ae2dabe0},
		"warc/pywb-iana.warc.gz":     {343, 16, 0x7b75a1cc7414eed8},
		"warc/whirlwind.warc.gz":     {4, 1, 0xf70d3d0dcf9456a9},
		"warc/whirlwind.warc.wet.gz": {2, 1, 0x37d24766c5d96958},
	} {
		t.Run(name, func(t *testing.T) {
			path := name
			if strings.HasPrefix(name, "warc/") {
				path = testgen.Shared(t, name)
			}
			r := newReader(t, Options{}, path)
			got := slices.DeleteFunc(readAll(t, r), func(rec Record) bool {
				return rec.Skip != nil
			})
			hash := xxhash.Sum64String(brief(got))
			if len(got) != want.documents || r.Totals().Records != want.records ||
				hash != want.hash {
				t.Errorf("%d documents with hash %#x, want %+v; %+v", len(got), hash, want,
					r.Totals())
			}
		})
	}
}
