package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/internal/wire"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testenv.MostlyWait()
	m.Run()
}

// scriptServer is the server of a script.
type scriptServer struct {
	*Server
	address  string
	answered *sync.Map // calls that were answered with success, by method and path
}

// TestScripts runs the scripts in testdata. They have these commands:
//
//   - "serve" starts a server. With "pages" it has web pages, with "token" a token, and with
//     "impatient" short limits of time.
//   - "call METHOD TARGET [NAME:VALUE]... [BODY]" sends a request with a header, and prints the
//     answer. Each call must be tried.
//   - "talk PART..." sends the parts to the server, with pauses, and prints the answer up to the
//     end of the connection. The server must end it.
//   - "stored N" checks the number of stored documents.
//
// A body or a part that is the name of a file is the content of this file.
func TestScripts(t *testing.T) {
	var answered sync.Map
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata",
			Cmds: map[string]func(*testscript.TestScript, bool, []string){
				"serve": serveInScript, "call": callInScript, "stored": checkStored,
				"talk": talkInScript,
			},
			Setup: func(env *testscript.Env) error {
				env.Values["server"] = &scriptServer{answered: &answered}
				return nil
			},
		})
	})
	for _, c := range calls {
		if _, ok := answered.Load(c.method + " " + c.path); !ok {
			t.Errorf("%s %s was not tried", c.method, c.path)
		}
	}
}

func serveInScript(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := os.MkdirTemp(ts.MkAbs("."), "server")
	ts.Check(err)
	x, err := neardup.Open(dir+"/ix", nil)
	ts.Check(err)
	o := Options{Checkpoints: dir, Limits: Limits{PageBytes: 1 << 10, RequestBytes: 1 << 20}}
	if slices.Contains(args, "token") {
		o.Token = "correct horse battery staple"
	}
	if slices.Contains(args, "pages") {
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "a page")
		})
	}
	if slices.Contains(args, "impatient") {
		o.ReadTimeout, o.WriteTimeout = 300*time.Millisecond, time.Second
	}
	s := New(x, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	ts.Defer(func() {
		ts.Check(errors.Join(s.Shutdown(context.Background()), <-ended, x.Close()))
		if !s.memory.TryAcquire(s.limits.MemoryBytes) {
			ts.Fatalf("memory is claimed without a request")
		}
	})
	running := ts.Value("server").(*scriptServer)
	running.Server, running.address = s, l.Addr().String()
}

// content returns the content of the file named text, or text if no such file exists.
func content(ts *testscript.TestScript, text string) string {
	if file, err := os.ReadFile(ts.MkAbs(text)); err == nil {
		return string(file)
	}
	return text
}

func talkInScript(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := net.Dial("tcp", ts.Value("server").(*scriptServer).address)
	ts.Check(err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		for _, part := range args {
			part = strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(content(ts, part))
			if _, err := io.WriteString(conn, part); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	said, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		ts.Fatalf("the connection stays open")
	}
	fmt.Fprintln(ts.Stdout(), strings.ReplaceAll(string(said), "\r", ""))
}

var headerArgument = regexp.MustCompile(`^([A-Z][A-Za-z-]+):(.*)$`)

func callInScript(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value("server").(*scriptServer)
	r := httptest.NewRequest(args[0], "http://localhost"+args[1], nil)
	for _, arg := range args[2:] {
		header := headerArgument.FindStringSubmatch(arg)
		switch {
		case header == nil:
			r.Body = io.NopCloser(strings.NewReader(content(ts, arg)))
		case header[1] == "Host":
			r.Host = header[2]
		default:
			r.Header.Set(header[1], header[2])
		}
	}
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	fmt.Fprintln(ts.Stdout(), w.Code, w.Header().Get("Content-Type"))
	for _, name := range []string{"Allow", "WWW-Authenticate"} {
		if value := w.Header().Get(name); value != "" {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", name, value)
		}
	}
	fmt.Fprint(ts.Stdout(), w.Body)
	for _, c := range calls {
		if c.method == r.Method && c.path == r.URL.Path {
			ts.Check(checkAnswer(&c, w.Code, w.Body.String()))
			if w.Code == c.status {
				s.answered.Store(c.method+" "+c.path, true)
			}
		}
	}
}

func checkStored(ts *testscript.TestScript, _ bool, args []string) {
	n := ts.Value("server").(*scriptServer).index.Stats().Documents
	if strconv.FormatUint(n, 10) != args[0] {
		ts.Fatalf("%d documents are stored, want %s", n, args[0])
	}
}

// checkAnswer returns an error if the answer to a call has objects of another type than
// openapi.json describes, which is generated from the types of calls.
func checkAnswer(c *call, status int, text string) error {
	if !strings.HasPrefix(text, "[") { // an object per line
		text = "[" + strings.ReplaceAll(strings.TrimSpace(text), "\n", ",") + "]"
	}
	var objects []json.RawMessage
	if err := json.Unmarshal([]byte(text), &objects); err != nil {
		return err
	}
	for _, object := range objects {
		to := reflect.New(reflect.TypeOf(c.answer)).Interface()
		if status != c.status || bytes.HasPrefix(object, []byte(`{"error":`)) {
			to = new(api.Failure)
		}
		if err := json.Unmarshal(object, to); err != nil {
			return err
		}
		again, err := wire.Encode(to)
		if err != nil || !bytes.Equal(object, bytes.TrimSpace(again)) {
			return fmt.Errorf("%s is read as %s, %v", object, again, err)
		}
	}
	return nil
}
