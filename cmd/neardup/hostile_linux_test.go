package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// TestHostileArchive deduplicates a small archive of pages whose characters become long in normal
// form. It must take no more memory than eight large pages of English.
func TestHostileArchive(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("128 MiB of text; skipped with -short")
	}
	const pageSize, most = 159 << 20 / 10, 200 << 20
	pages := 2
	if os.Getenv("NEARDUP_CI") != "" {
		pages = 8
	}
	var archive bytes.Buffer
	z, _ := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	for i := range pages {
		fill := []string{"\ufdfa", "\u3316"}[i%2]
		block := "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>" +
			strings.Repeat(fill, pageSize/len(fill)-2)
		fmt.Fprintf(z, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: "+
			"http://a.example/%d\r\nContent-Type: application/http\r\nContent-Length: "+
			"%d\r\n\r\n%s\r\n\r\n", i, len(block), block)
	}
	must(t, z.Close())
	file := writeFile(t, "hostile.warc.gz", archive.String())
	cmd := process("dedup", file)
	var out bytes.Buffer
	cmd.Stdout = &out
	must(t, cmd.Start())
	// After the end of the command, the system would report at least the memory of the test
	// process that started it.
	peak, status := 0, fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-tick.C:
			text, _ := os.ReadFile(status)
			if m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text); m != nil {
				kib, _ := strconv.Atoi(string(m[1]))
				peak = max(peak, kib<<10)
			}
			continue
		case err := <-ended:
			if lines := bytes.Count(out.Bytes(), []byte("\n")); err != nil || lines != pages {
				t.Fatalf("%d lines, %v", lines, err)
			}
		}
		break
	}
	t.Logf("an archive of %d bytes: %d MiB, %v of processor time", archive.Len(), peak>>20,
		cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if peak == 0 || peak > most {
		t.Errorf("it took %d MiB", peak>>20)
	}
}
