package corpus

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// TestRawRecordsOnManyGoroutines: what is parsed in any order, on any goroutine, is what
// Records gives, and is counted the same.
func TestRawRecordsOnManyGoroutines(t *testing.T) {
	var warc, lines strings.Builder
	for i := range 200 {
		body := strings.Repeat(page, 1+i%7)
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
		switch i % 5 {
		case 0:
			warc.WriteString(httpRecord("u", head+"\r\n"+body))
		case 1:
			warc.WriteString(httpRecord("u", head+"Content-Encoding: gzip\r\n\r\n"+gzipped(body)))
		case 2:
			warc.WriteString(httpRecord("u", head+"Content-Encoding: zstd\r\n\r\n"+zstded(body)))
		case 3:
			warc.WriteString(httpRecord("u", head+"Transfer-Encoding: chunked\r\n\r\n"+chunked(body, 7)))
		case 4:
			warc.WriteString(httpRecord("u", head+"Content-Encoding: gzip\r\n\r\n"+gzipped(body)[:20]))
		}
		lines.WriteString([]string{`{"url":"u","html":"` + strings.Repeat("a", i) + `"}`, `{"html":"b"`, `{"fingerprint":"1"}`, `[]`}[i%4] + "\n")
	}
	for name, input := range map[string]string{"warc": warc.String(), "gzip": gzipped(warc.String()), "jsonl": lines.String()} {
		want := readString(t, Options{}, input)
		r := newReader(t, Options{Stdin: strings.NewReader(input)}, "-")
		var all []*RawRecord
		for u, err := range r.RawRecords(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, u)
		}
		got := make([]Record, len(all))
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := len(all) - 1 - g; i >= 0; i -= 4 {
					got[i] = all[i].Parse()
				}
			})
		}
		wg.Wait()
		if len(got) != len(want) || len(got) < 200 {
			t.Fatalf("%s: %d records, want %d", name, len(got), len(want))
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("%s: record %d is %+v, want %+v", name, i, got[i], want[i])
			}
		}
		checkTotals(t, got, totalsOf(r))
	}
}
