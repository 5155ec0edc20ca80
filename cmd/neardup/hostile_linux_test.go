package main

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A small archive of pages whose characters become many in normal form takes no more
// memory than eight large pages of English.
func TestHostileArchive(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("128 MiB of text; skipped with -short")
	}
	const pageSize, most = 159 << 20 / 10, 200 << 20
	for fill, command := range map[string]string{"\ufdfa": "dedup", "\u3316": "fingerprint"} {
		page := "<p>" + strings.Repeat(fill, pageSize/len(fill)-2)
		block := "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page
		var archive bytes.Buffer
		z := gzip.NewWriter(&archive)
		for i := range 8 {
			fmt.Fprintf(z, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/%d\r\nContent-Type: application/http\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", i, len(block), block)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		file := writeFile(t, "hostile.warc.gz", archive.String())
		cmd := process(command, file)
		start := time.Now()
		out, err := cmd.Output()
		if lines := bytes.Count(out, []byte("\n")); err != nil || lines != 8 {
			t.Fatalf("%s: %d lines, %v", command, lines, err)
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		t.Logf("%s of %d bytes of %q: %d MiB, %v, %v of processor time", command, archive.Len(), fill,
			usage.Maxrss>>10, time.Since(start).Round(time.Millisecond), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if usage.Maxrss<<10 > most {
			t.Errorf("%s took %d MiB for %q", command, usage.Maxrss>>10, fill)
		}
	}
}
