package crawlgen

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const testdata = "../../testdata"

func generate(t *testing.T) *Crawl {
	t.Helper()
	crawl, err := Generate(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return crawl
}

func (c *Crawl) file(t *testing.T, path string) []byte {
	t.Helper()
	for _, f := range c.Files {
		if f.Path == path {
			return f.Data
		}
	}
	t.Fatalf("the crawl has no file %s", path)
	return nil
}

const regenerate = "run go generate ./internal/crawlgen"

// The committed crawl must be what the generator writes.
func TestCommittedCrawl(t *testing.T) {
	crawl := generate(t)
	root := filepath.Join(testdata, Folder)
	paths, err := ListFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !slices.ContainsFunc(crawl.Files, func(f File) bool { return f.Path == path }) {
			t.Errorf("%s: not made by the generator; remove it", path)
		}
	}
	for _, f := range crawl.Files {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		if err != nil {
			t.Errorf("%v; %s", err, regenerate)
			continue
		}
		if strings.HasSuffix(f.Path, ".gz") {
			compareMembers(t, f.Path, got, f.Data)
		} else if !bytes.Equal(got, f.Data) {
			t.Errorf("%s: not what the generator writes; %s", f.Path, regenerate)
		}
	}
	got, err := os.ReadFile(filepath.Join(testdata, ExpectedFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, FormatExpected(crawl.Documents)) {
		t.Errorf("%s: not what the generator writes; %s", ExpectedFile, regenerate)
	}
}

// compareMembers compares what is compressed: another Go release may compress
// the same bytes in another way.
func compareMembers(t *testing.T, path string, got, want []byte) {
	t.Helper()
	gotMembers, err := members(got)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	wantMembers, err := members(want)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(gotMembers, wantMembers, bytes.Equal) {
		t.Errorf("%s: not what the generator writes; %s", path, regenerate)
	}
}

func TestSeedChangesTheCrawl(t *testing.T) {
	other, err := Generate(Options{Seed: DefaultSeed + 1})
	if err != nil {
		t.Fatal(err)
	}
	const path = "gazette.example/visit/1/bridge.html"
	if bytes.Equal(other.file(t, path), generate(t).file(t, path)) {
		t.Errorf("%s has the same session id for two seeds", path)
	}
}

// Keys are unique, files are in the order of a sorted walk, and a group begins
// with a document that is New or Confused.
func TestExpectationsAreConsistent(t *testing.T) {
	crawl := generate(t)
	keys := make(map[string]bool)
	groups := make(map[string]bool)
	for _, d := range crawl.Documents {
		if keys[d.Key] {
			t.Errorf("key %s occurs twice", d.Key)
		}
		keys[d.Key] = true
		first := !groups[d.Group]
		groups[d.Group] = true
		switch d.Expect {
		case New, Confused:
			if !first {
				t.Errorf("%s: expected %s, but is not the first of group %s", d.Key, d.Expect, d.Group)
			}
		case Duplicate, Missed:
			if first {
				t.Errorf("%s: expected %s, but is the first of group %s", d.Key, d.Expect, d.Group)
			}
		}
	}
	dir := t.TempDir()
	if err := crawl.Write(dir); err != nil {
		t.Fatal(err)
	}
	walked, err := ListFiles(filepath.Join(dir, Folder))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(walked, crawl.Files, func(path string, f File) bool { return path == f.Path }) {
		t.Errorf("the files are not in the order of a walk: %q", walked)
	}
	parsed, err := ParseExpected(FormatExpected(crawl.Documents))
	if err != nil || !slices.Equal(parsed, crawl.Documents) {
		t.Errorf("the expectations do not survive writing and reading: %v", err)
	}
}

// The README calls the crawl small, and promises what is in it.
func TestCrawlIsSmall(t *testing.T) {
	crawl := generate(t)
	size := 0
	for _, f := range crawl.Files {
		size += len(f.Data)
	}
	if n := len(crawl.Documents); n < 60 || n > 120 {
		t.Errorf("%d documents, want 60 to 120", n)
	}
	if size > 800_000 {
		t.Errorf("%d bytes, want at most 800,000", size)
	}
}

func TestWriteRefusesStrangers(t *testing.T) {
	dir := t.TempDir()
	crawl := generate(t)
	for range 2 { // writing over an earlier crawl is allowed
		if err := crawl.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	stranger := filepath.Join(dir, Folder, "stranger.txt")
	if err := os.WriteFile(stranger, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := crawl.Write(dir); err == nil || !strings.Contains(err.Error(), "stranger.txt") {
		t.Errorf("Write over a folder with a file of someone else: error %v, want one that names it", err)
	}
}

func TestParseExpectedErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"# header\na\tb\tnew", "line 2: 3 fields"},
		{"a\tb\tnever\tnote\n", `line 1: unknown expectation "never"`},
	} {
		if _, err := ParseExpected([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseExpected(%q): error %v, want %q in it", c.in, err, c.want)
		}
	}
}
