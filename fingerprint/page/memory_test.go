package page

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// Pages that are made to cost much: time and memory stay linear in their
// size.
func TestHostilePages(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short")
	}
	const size = 8 << 20
	fill := func(head, fill, tail string) []byte {
		return []byte(head + strings.Repeat(fill, size/len(fill)) + tail)
	}
	for _, test := range []struct {
		name string
		body []byte
	}{
		{"one attribute", fill(`<p a="`, "x", `">text`)},
		{"one style", fill(`<p style="`, "x:y;", `">text`)},
		{"many attributes", fill("<p", " a", ">text")},
		{"one tag name", fill("<", "x", ">text")},
		{"comment without end", fill("text<!--", "x", "")},
		{"script without end", fill("text<script>", "x", "")},
		{"script of script tags", fill("text<script><!--", "<script>", "")},
		{"entities", fill("", "&nGt;", "text")},
		{"ampersands", fill("", "&", "text")},
		{"less-than signs", fill("", "<", " text")},
		{"open tags", fill("", "<b>", "text")},
		{"open hidden", fill("", "<i hidden>", "text")},
		{"open blocks", fill("", "<div>", "text")},
		{"blocks", fill("", "<div>a</div>", "text")},
		{"hinted blocks", fill("", "<p class=nav>a", "text")},
		{"open list items", fill("", "<ul><li>a", "text")},
		{"cells", fill("", "<table><td>a", "text")},
		{"end tags", fill(strings.Repeat("<table><td>", 300)+"<div><p>", "</div></li></td>", "<div>text")},
		{"class of many words", fill(`<div class="`, "nav ", `">text</div>`)},
		{"open svg", fill("", "<svg>", "<p>text")},
		{"meta without charset", fill("", "<meta x=y>", "text\xff")},
		{"windows-1252", fill("", "\x80", "text")},
		{"not UTF-8", fill("é", "\xff", "é text")},
	} {
		for _, mode := range []TextMode{Visible, Main} {
			t.Run(test.name+"/"+mode.Name(), func(t *testing.T) {
				var got Page
				var err error
				start := time.Now()
				peak := measureHeap(func() { got, err = Extract(test.body, "", Options{Text: mode}) })
				if err != nil || !strings.Contains(got.Text, "text") {
					t.Errorf("%.40q, %v", got.Text, err)
				}
				t.Logf("%.1f times the page, %v", float64(peak)/size, time.Since(start))
				if peak > 24*size {
					t.Errorf("%d bytes for a page of %d", peak, size)
				}
			})
		}
	}
}

// measureHeap is how much the heap grows at most while f runs, looked at from
// time to time.
func measureHeap(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > before {
				peak = max(peak, m.HeapAlloc-before)
			}
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return peak
}
