package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// memoryOf returns a figure of the memory of a process, in bytes, or 0 if the process has ended.
func memoryOf(cmd *exec.Cmd, figure string) (kib int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	_, value, _ := strings.Cut(string(status), figure+":")
	fmt.Sscan(value, &kib)
	return kib << 10
}

// TestHostileArchive deduplicates a small archive of pages whose characters become long in normal
// form. It must take no more memory than eight large pages of English.
func TestHostileArchive(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("128 MiB of text; skipped with -short")
	}
	const pageSize, most = 159 << 20 / 10, 200 << 20
	var archive strings.Builder
	pages := testenv.Number(2, 2, 8, 2)
	for i := range pages {
		fill := []string{"\ufdfa", "\u3316"}[i%2]
		block := "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>" +
			strings.Repeat(fill, pageSize/len(fill)-2)
		fmt.Fprintf(&archive, "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: "+
			"http://a.example/%d\r\nContent-Type: application/http\r\nContent-Length: "+
			"%d\r\n\r\n%s\r\n\r\n", i, len(block), block)
	}
	cmd := process("dedup", writeFile(t, "hostile.warc.gz", testgen.Gzip(archive.String())))
	var out bytes.Buffer
	cmd.Stdout = &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// After the end of the command, the system would report at least the memory of the test
	// process that started it.
	peak := 0
	for len(ended) == 0 {
		peak = max(peak, memoryOf(cmd, "VmHWM"))
		time.Sleep(5 * time.Millisecond)
	}
	if lines := strings.Count(out.String(), "\n"); <-ended != nil || lines != pages {
		t.Fatalf("%d lines", lines)
	}
	t.Logf("%d MiB, %v of processor time", peak>>20,
		cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if peak == 0 || peak > most {
		t.Errorf("it took %d MiB", peak>>20)
	}
}
