package corpus

import (
	"fmt"
	"strings"
	"testing"
)

const arcBegin = "filedesc://x.arc 0.0.0.0 20080430204825 text/plain 76\n1 0 Archive\nURL IP-address Archive-date Content-type Archive-length\n\n"

func arcRecord(url, media, block string) string {
	return fmt.Sprintf("%s 192.0.2.1 20080430204825 %s %d\n%s\n", url, media, len(block), block)
}

func TestARC(t *testing.T) {
	const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page
	begin := strings.Replace(arcBegin, "76", fmt.Sprint(len(arcBegin)-strings.Index(arcBegin, "\n")-2), 1)
	a, b := arcRecord("http://a/", "text/html", html), arcRecord("http://b/", "text/html", html)
	lies := strings.Replace(b, fmt.Sprint(" ", len(html), "\n"), " 20\n", 1)
	const described, readA, readB = "filedesc://x.arc pass filedesc", "http://a/ html " + page, "http://b/ html " + page
	for name, c := range map[string]struct {
		input string
		want  []string
	}{
		"records":            {begin + a + b, []string{described, readA, readB}},
		"a DNS record":       {begin + arcRecord("dns:a", "text/dns", "20080430 a") + a, []string{described, "dns:a pass not text: text/dns", readA}},
		"a redirect":         {begin + arcRecord("http://c/", "text/html", "HTTP/1.1 302 Found\r\n\r\n") + a, []string{described, "http://c/ pass status 302", readA}},
		"no HTTP":            {begin + arcRecord("ftp://c/", "text/plain", "words") + a, []string{described, "ftp://c/ text words", readA}},
		"ten columns":        {begin + strings.Replace(a, "text/html ", "text/html 200 - - 100 x.arc ", 1) + b, []string{described, readA, readB}},
		"a length that lies": {begin + lies + a, []string{described, "http://b/ lost wrong Content-Length", readA}},
		"one that hides":     {strings.Replace(begin, " text/plain ", " text/plain 1", 1) + a + b, []string{"filedesc://x.arc lost wrong Content-Length", readB}},
		"into a header":      {strings.Replace(arcBegin, "76", "100", 1) + a + b, []string{"filedesc://x.arc lost wrong Content-Length", readB}},
		"rubbish":            {begin + a + "\nrubbish\nmore of it\n" + b, []string{described, readA, " lost no ARC record", readB}},
		"cut off":            {begin + a + b[:len(b)-20], []string{described, readA, "http://b/ lost truncated record"}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, readString(t, Options{}, c.input), c.want...)
			check(t, readString(t, Options{Format: ARC}, zstded(c.input)), c.want...)
		})
	}
	damaged := []byte(gzipped(begin) + gzipped(a) + gzipped(b))
	damaged[len(gzipped(begin))+len(gzipped(a))/2] ^= 0xff
	records := readString(t, Options{}, string(damaged))
	if got := brief(records); !strings.HasPrefix(got, described) || !strings.HasSuffix(got, readB+"\n") || len(records) != 3 || !records[1].Skip.Broken {
		t.Errorf("one damaged member: %s", got)
	}
	check(t, readString(t, Options{}, gzipped(begin)+gzipped(a)+gzipped(b)), described, readA, readB)
}

func FuzzARC(f *testing.F) {
	a := arcRecord("http://a/", "text/html", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"+page)
	for _, seed := range []string{arcBegin + a, gzipped(arcBegin) + gzipped(a), a + "rubbish\n" + a, a[:60], "a: b 20080430204825 c 99999999999\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) { fuzzRead(t, ARC, input) })
}
