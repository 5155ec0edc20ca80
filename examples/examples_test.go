package examples_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/examples/pages"
)

// site has pages by path, and the groups of paths whose pages are near-duplicates.
type site struct {
	pages map[string]neardup.Page
	alike [][]string
}

func latin1(text []byte) []byte {
	return []byte(strings.NewReplacer("ö", "\xf6", "ß", "\xdf").Replace(string(text)))
}

func newSite() *site {
	s := &site{pages: make(map[string]neardup.Page)}
	rng := rand.New(rand.NewPCG(1, 2))
	var links string
	add := func(alike ...string) {
		text := new(strings.Builder)
		for range 1000 {
			fmt.Fprintf(text, "ö%dß ", rng.IntN(1e6))
		}
		for i, path := range alike {
			next := "/" // A page links to its near-duplicate, which is therefore checked later.
			if i+1 < len(alike) {
				next = alike[i+1]
			}
			p := neardup.Page{ContentType: "text/html; charset=utf-8"}
			p.Body = fmt.Appendf(nil, "<h1>no %d</h1><p>%s</p><a href=%q>next</a>", i, text, next)
			if strings.HasPrefix(path, "/copy/") {
				p.ContentType, p.Body = "text/html; charset=iso-8859-1", latin1(p.Body)
			}
			s.pages[path] = p
		}
		s.alike = append(s.alike, alike)
		links += fmt.Sprintf("<a href=%q>%s</a> ", alike[0], alike[0])
	}
	for i := range 80 {
		add(fmt.Sprintf("/article/%d", i), fmt.Sprintf("/print?article=%d", i))
	}
	// One page links to all of these, so they are checked concurrently.
	for c := 'a'; c <= 'z'; c++ {
		add("/essay/"+string(c), "/copy/"+string(c))
		links += fmt.Sprintf("<a href='/copy/%c'>copy</a> ", c)
	}
	s.pages["/"] = neardup.Page{ContentType: "text/html", Body: []byte(links)}
	s.alike = append(s.alike, []string{"/"})
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, found := s.pages[r.URL.RequestURI()]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", p.ContentType)
	w.Write(p.Body)
}

// run starts a crawler. If killAfter is not 0, it kills the crawler after that many printed URLs.
func run(t *testing.T, killAfter int, command ...string) (printed []string, err error) {
	crawler := exec.CommandContext(t.Context(), command[0], command[1:]...)
	out, err := crawler.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crawler.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if printed = append(printed, lines.Text()); len(printed) == killAfter {
			crawler.Process.Kill()
		}
	}
	return printed, crawler.Wait()
}

func open(t *testing.T, dir string) *pages.Folder {
	f, err := pages.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestKilledAndStartedAgain(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "./colly",
		"./workers").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"colly", "workers"} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSite(), t.TempDir()
			server := httptest.NewServer(s)
			defer server.Close()
			command := []string{filepath.Join(bin, name), server.URL + "/", dir}

			// A crawler that was killed between Check and the write leaves this state.
			f := open(t, dir)
			lost := s.pages["/article/7"]
			lost.URL = server.URL + "/article/7"
			if v, err := f.Check(t.Context(), lost); err != nil || v.Status != neardup.New {
				t.Fatal(v, err)
			}
			f.Close()
			acknowledged := []string{lost.URL}
			for round := range 4 {
				printed, err := run(t, 15+25*round, command...)
				if err == nil {
					t.Fatal("the crawler finished before it was killed")
				}
				acknowledged = append(acknowledged, printed...)
			}

			// A page that cannot be saved stops the crawl.
			unsaved := server.URL + "/article/79"
			os.Remove(f.File(unsaved))
			os.Mkdir(f.File(unsaved), 0o755)
			if _, err := run(t, 0, command...); err == nil {
				t.Fatal("the crawler reported no error for a page that it cannot save")
			}
			f = open(t, dir)
			if _, found, err := f.Get(t.Context(), unsaved); found || err != nil {
				t.Errorf("%s is in the index and not saved (%v)", unsaved, err)
			}
			f.Close()
			os.Remove(f.File(unsaved))

			printed, err := run(t, 0, command...)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range append(acknowledged, printed...) {
				body, err := os.ReadFile(f.File(u))
				want := s.pages[strings.TrimPrefix(u, server.URL)].Body
				// colly converts to UTF-8
				if err != nil || !bytes.Equal(latin1(body), latin1(want)) {
					t.Errorf("%s was printed and is not saved (%v)", u, err)
				}
			}
			for _, alike := range s.alike {
				kept := slices.DeleteFunc(slices.Clone(alike), func(path string) bool {
					_, err := os.Stat(f.File(server.URL + path))
					return err != nil
				})
				if len(kept) != 1 {
					t.Errorf("near-duplicates %q: saved %q, want one", alike, kept)
				}
			}
		})
	}
}
