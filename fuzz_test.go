package neardup_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testing/checktest"
)

// FuzzCheck tests that any page is New or Skipped. The same page again must be Unchanged, or
// Skipped for the same reason. Under another URL it must be a Duplicate.
func FuzzCheck(f *testing.F) {
	for _, s := range checktest.Crawl() {
		if len(s.Page.Body) < 1<<20 {
			f.Add(s.Page.ContentType, s.Page.Body)
		}
	}
	x, err := neardup.Open("pages", &neardup.Options{MaxBody: 1 << 20,
		Index: index.Options{FS: vfs.NewMem(), Durability: index.NoSync}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { x.Close() })
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if _, err := x.Delete(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		p := neardup.Page{URL: "a", ContentType: contentType, Body: body}
		other := p
		other.URL = "b"
		verdicts, err := x.CheckBatch(t.Context(), []neardup.Page{p, p, other})
		if err != nil {
			t.Fatal(err)
		}
		first, again, copied := verdicts[0], verdicts[1], verdicts[2]
		switch {
		case first.Status == neardup.Skipped && first.Reason != "" && again == first &&
			copied == first:
		case first.Status == neardup.New && again.Status == neardup.Unchanged &&
			again.Of.Key == "a" && copied.Status == neardup.Duplicate && copied.Of.Distance == 0:
		default:
			t.Errorf("%+v, %+v, %+v", first, again, copied)
		}
	})
}
