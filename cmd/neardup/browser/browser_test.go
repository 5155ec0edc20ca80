// Package browser tests the web pages of serve and the report of dedup in Chromium. It is a
// separate module because of chromedp. If NEARDUP_SCREENSHOTS names a directory, the tests write a
// screenshot of each page there.
package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser and program are the paths of Chromium and of neardup.
var browser, program string

// TestMain finds Chromium and builds neardup.
func TestMain(m *testing.M) {
	for _, name := range []string{"google-chrome", "chromium-browser", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
		}
	}
	if browser == "" && os.Getenv("NEARDUP_CI") == "" {
		fmt.Println("chromium is not installed: the web pages are not tested")
		return
	}
	dir, err := os.MkdirTemp("", "neardup-browser-")
	program = filepath.Join(dir, "neardup")
	build := exec.Command("go", "build", "-o", program, "./cmd/neardup")
	build.Dir = "../../.."
	if out, failed := build.CombinedOutput(); err != nil || failed != nil {
		panic(fmt.Sprintf("%v: %v: %s", err, failed, out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tab is a tab of a browser, with the faults seen in it.
type tab struct {
	*testing.T
	context.Context
	allowed string // prefix of the addresses that may be requested

	mu    sync.Mutex
	wrong []string
	asked int // requests
}

func newTab(t *testing.T, allowed string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser),
		chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	watchdog := time.AfterFunc(3*time.Minute, cancel)
	t.Cleanup(func() { watchdog.Stop() })
	b := &tab{T: t, Context: ctx, allowed: allowed}
	b.run(chromedp.Navigate("about:blank")) // starts the browser
	must(t, chromedp.Listen(ctx, b.note))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	must(t, err)
	return b
}

// note records scripts that run, errors, violations of the policy, and requests to other addresses.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.wrong = append(b.wrong, fmt.Sprintf("console: %s", e.Args[0].Value))
	case *browserlog.EventEntryAdded:
		b.wrong = append(b.wrong, "log: "+e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "a script runs: "+e.Message)
		go chromedp.Call(b.Context, page.HandleJavaScriptDialog,
			page.HandleJavaScriptDialogParams{Accept: true})
	case *network.EventRequestWillBeSent:
		b.asked++
		if url := e.Request.URL; !strings.HasPrefix(url, b.allowed) &&
			!strings.HasPrefix(url, "data:image/svg+xml,") {
			b.wrong = append(b.wrong, "request: "+url)
		}
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	must(b.T, chromedp.Do(b.Context, actions...))
}

// value runs an action and returns its value.
func value[T any](b *tab, action chromedp.Action[T]) T {
	b.Helper()
	v, err := chromedp.Run(b.Context, action)
	must(b.T, err)
	return v
}

func (b *tab) has(parts ...string) {
	b.Helper()
	text := value(b, chromedp.Text(css("main")))
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.Errorf("the page does not say %q:\n%.1500s", part, text)
		}
	}
}

// faults is a script that returns the faults of a page in accessibility. fetch is a script that
// checks a page.
var (
	//go:embed testdata/faults.js
	faults string
	//go:embed testdata/fetch.js
	fetch string
)

// check checks a page on a wide and on a narrow screen, light and dark, and makes a screenshot of
// each.
func (b *tab) check(name string) {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1100, 360} {
			b.shown(width, scheme)
			wrong := value(b, chromedp.Evaluate[[]string](faults))
			wide := value(b, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			background := value(b, chromedp.Evaluate[string](
				`getComputedStyle(document.body).backgroundColor`))
			for _, w := range wrong {
				b.Errorf("%s, %s, %d wide: %s", name, scheme, width, w)
			}
			if wide > width {
				b.Errorf("%s, %s: %d wide, the screen has %d", name, scheme, wide, width)
			}
			if dark := strings.HasPrefix(background, "rgb(21,"); dark != (scheme == "dark") {
				b.Errorf("%s, %s: the background is %s", name, scheme, background)
			}
			b.picture(fmt.Sprintf("%s-%s-%d.png", name, scheme, width))
		}
	}
	b.shown(1100, "light")
	b.clean(name)
}

// visit opens a page, which must have some parts, and checks it.
func (b *tab) visit(name, address string, parts ...string) {
	b.Helper()
	b.run(chromedp.Navigate(address))
	b.has(parts...)
	b.check(name)
}

// shown sets the width of the screen and the preferred color scheme.
func (b *tab) shown(width int64, scheme string) {
	b.Helper()
	var mobile []chromedp.EmulateViewportOption
	if width < 500 {
		mobile = append(mobile, chromedp.EmulateMobile)
	}
	b.run(chromedp.EmulateViewport(width, 900, mobile...))
	_, err := chromedp.Call(b.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	must(b.T, err)
}

// clean fails if there were faults.
func (b *tab) clean(name string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.Errorf("%s: %s", name, w)
	}
	if b.wrong = nil; b.asked == 0 {
		b.Errorf("%s: no request was seen", name)
	}
}

func (b *tab) picture(name string) {
	b.Helper()
	if dir := os.Getenv("NEARDUP_SCREENSHOTS"); dir != "" {
		png := value(b, chromedp.FullScreenshot(100))
		must(b.T, os.WriteFile(filepath.Join(dir, name), png, 0o666))
	}
}

func css(s string) chromedp.CSS { return chromedp.CSS(s) }

// hostile is a key and a text that would run a script, close an element, load a file or reverse the
// text.
const hostile = `http://evil.example/"><script>alert('key')</script>` +
	`<img src=http://evil.example/x onerror=alert(1)>javascript:alert(1)</style>` + "\u202e"

// pasted is the text of a page with a number.
const pasted = "a text with the number %d of some words that follow each other"

// documents writes JSON lines. Every third document is a copy of the previous one with a few other
// words.
func documents(t *testing.T, name string, n int) (path string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	path = filepath.Join(t.TempDir(), name)
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	encode := json.NewEncoder(file)
	text := make([]string, 90)
	for i := range n {
		if i%3 == 1 {
			text[rng.IntN(len(text))] = "changed"
		} else {
			for j := range text {
				text[j] = fmt.Sprint("word", rng.IntN(5000))
			}
		}
		url := fmt.Sprintf("http://site%d.example/articles/%d", i/3%50, i)
		if i < 3 {
			url, text[5] = fmt.Sprint(hostile, i), hostile
		}
		must(t, encode.Encode(map[string]string{"url": url, "text": strings.Join(text, " ")}))
	}
	return path
}

// serve starts a server and returns its address.
func serve(t *testing.T, args ...string) (address string) {
	t.Helper()
	s := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := s.StderrPipe()
	must(t, err)
	must(t, s.Start())
	t.Cleanup(func() {
		s.Process.Signal(os.Interrupt)
		if err := s.Wait(); err != nil {
			t.Error("serve:", err)
		}
	})
	log := json.NewDecoder(stderr)
	var line struct{ Msg, Address string }
	for line.Msg != "serving" {
		must(t, log.Decode(&line))
	}
	go io.Copy(io.Discard, stderr)
	return "http://" + line.Address
}

// TestPages visits each page of a server with 100,000 documents.
func TestPages(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 3_000
	}
	file, dir := documents(t, "docs.jsonl", n), filepath.Join(t.TempDir(), "ix")
	if out, err := exec.Command(program, "dedup", "--keep-duplicates", "--index", dir,
		file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %.2000s", err, out)
	}
	address := serve(t, "--index", dir, "--archive", file)
	for i := range 40 {
		answer, err := http.Post(fmt.Sprint(address, "/v1/check?key=http://new.example/", i%30),
			"text/plain", strings.NewReader(fmt.Sprintf(pasted, i/2)))
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%v: %v", err, answer)
		}
		answer.Body.Close()
	}
	b := newTab(t, address)

	b.visit("overview", address, "documents stored", "duplicate", "documents, from --archive")

	// The pages can be used with the keyboard. The first tab stop is the link to the content.
	b.run(chromedp.KeyEvent(kb.Tab))
	if focused := value(b, chromedp.Evaluate[string](
		`document.activeElement.textContent`)); focused != "To the content" {
		t.Errorf("the first stop of the keyboard is %q", focused)
	}
	b.run(chromedp.Click(css(`nav a[href="/search"]`)), chromedp.WaitVisible(css("#q")),
		chromedp.Focus(css("#q")), chromedp.KeyEvent("http://site5.example/articles/15"+kb.Enter),
		chromedp.WaitVisible(css(".hex")))
	b.has("http://site5.example/articles/16", "match", "90")
	b.check("search")
	b.run(chromedp.Click(css(`th a[href^="/compare"]`)), chromedp.WaitVisible(css(".diff")))
	b.has("They match", "changed", "with the shingles")
	b.check("compare")

	b.run(chromedp.Navigate(address+"/search"), chromedp.Click(css("summary")),
		chromedp.SendKeys(css("#text"), fmt.Sprintf(pasted, 7)), chromedp.Click(css("form[method=post] button")),
		chromedp.WaitVisible(css(".hex")))
	b.has("Duplicate", "because it matches", "http://new.example/")
	b.check("pasted")

	b.run(chromedp.Click(css(`nav a[href="/groups"]`)),
		chromedp.SendKeys(css("#host"), "site7.example"+kb.Enter),
		chromedp.WaitVisible(css(".pair")))
	b.has("site7.example", "documents of this host", "matching document")
	b.check("groups")

	// Hostile keys and texts are shown as text in every place.
	b.run(chromedp.Navigate(address+"/search"), chromedp.SetValue(css("#q"), hostile+"0"),
		chromedp.Submit(css("#q")), chromedp.WaitVisible(css(".hex")))
	b.has("<script>alert('key')</script>")
	b.check("hostile-search")
	b.run(chromedp.Click(css(`th a[href^="/compare"]`)), chromedp.WaitVisible(css(".diff")))
	b.has("<script>alert('key')</script>", "changed")
	b.check("hostile-compare")
	b.visit("hostile-groups", address+"/groups?host=evil.example", "<script>alert('key')</script>")
	b.visit("hostile-host", address+"/groups?host=%3Cscript%3Ealert(1)%3C/script%3E", "<script>")
	b.visit("compare-none", address+"/compare?a=nothere&b=nothere",
		"No document has the key nothere")

	// A script of a page of this server can call the server.
	b.run(chromedp.Navigate(address + "/openapi.json"))
	if verdict := value(b, chromedp.Evaluate[string](fetch, chromedp.EvalAwaitPromise)); verdict != "new" {
		t.Errorf("fetch returned the verdict %q", verdict)
	}
}

// TestReport opens the report of a run as a file.
func TestReport(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.html")
	for name, args := range map[string][]string{
		"report": {"dedup", "--report", report, "testdata/crawl"},
		"report-hostile": {"dedup", "--report", report,
			documents(t, "a-name-"+strings.Repeat("without-a-space-", 5)+".jsonl", 3000)},
		"report-empty": {"dedup", "--report", report, os.DevNull},
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.Command(program, args...)
			run.Dir = "../../.."
			// an empty input exits with 3
			if out, err := run.CombinedOutput(); err != nil && name != "report-empty" {
				t.Fatalf("%v: %.2000s", err, out)
			}
			b := newTab(t, "file://")
			b.visit(name, "file://"+report, "Verdicts on documents", "Distances",
				"Just inside the limits")
			if info, err := os.Stat(report); err != nil || info.Size() > 1<<20 {
				t.Errorf("%d bytes, %v", info.Size(), err)
			}
		})
	}
}
