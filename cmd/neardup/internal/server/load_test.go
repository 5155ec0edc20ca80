package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/testgen"
)

// loadedDocuments are n of all kinds. Some have a key that comes again.
func loadedDocuments(n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = index.Document{Fingerprint: 1 + checkFingerprint(i, 0), Shingle: checkFingerprint(i, 1), Tokens: i % 300}
		switch i % 5 {
		case 0:
			docs[i].Key = fmt.Sprintf("key %d\xff", i%(n/2))
		case 1:
			docs[i].Key, docs[i].Scope = fmt.Sprint("https://example.com/?a&", i), "scope \x00<\xfe"
		case 2:
			docs[i].Added = time.Unix(1_600_000_000+int64(i), 0).UTC()
		}
	}
	return docs
}

func stored(t *testing.T, x *neardup.Index) (docs []index.Document) {
	t.Helper()
	for d, err := range x.Documents(t.Context()) {
		must(t, err)
		docs = append(docs, d)
	}
	return docs
}

// What a client loads is what the front door loads.
func TestLoad(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	options := &neardup.Options{Index: index.Options{Now: func() time.Time { return now }}}
	docs, here, served := loadedDocuments(3000), open(t, options), open(t, options)
	report, err := here.Load(t.Context(), testgen.Sequence(docs), compaction.LoadOptions{KeepAdded: true})
	if err != nil || report.Loaded != 3000 || report.Replaced != 300 {
		t.Fatalf("%+v, %v", report, err)
	}
	_, address := serve(t, served, Options{CompactionBytes: 1 << 20})
	loaded, replaced, err := dial(t, address, nil).Load(t.Context(), testgen.Sequence(docs))
	if err != nil || loaded != 3000 || replaced != 300 {
		t.Error(loaded, replaced, err)
	}
	if want := stored(t, here); !slices.Equal(stored(t, served), want) || len(want) != 2700 {
		t.Errorf("%d documents are stored, and are not those of %d", len(stored(t, served)), len(want))
	}
	if loaded, replaced, err := dial(t, address, nil).Load(t.Context(), testgen.Sequence[index.Document](nil)); loaded != 0 || replaced != 0 || err != nil {
		t.Error(loaded, replaced, err)
	}
}

// Pages are loaded as well, and what cannot be compared is counted.
func TestLoadLines(t *testing.T) {
	x := open(t, nil)
	_, address := serve(t, x, Options{Limits: Limits{PageBytes: 1 << 10}})
	for _, test := range []struct{ body, want string }{
		{`{"key":"a","text":"some words"}` + "\n\n" + `{"key":"b","fingerprint":"0000000000000007","tokens":9,"added":"2020-01-02T03:04:05Z"}`, `"loaded":2,"replaced":0,"skipped":0,"seconds"`},
		{`{"key":"a","html":"<p>other words"}` + "\nno JSON\n" + `{"key":"c","text":"..."}`, `"loaded":1,"replaced":1,"skipped":2,"firstSkipped":"line 2, key`},
		{`{"text":"` + strings.Repeat("a ", 1<<20) + `"}`, `"loaded":0,"replaced":0,"skipped":1,"firstSkipped":"line 1, key \"\": too large`},
		{`{"key":"d","text":"words","added":"yesterday"}`, `"loaded":0,"replaced":0,"skipped":1,"firstSkipped":"line 1, key \"d\": parsing time`},
		{"", `"loaded":0`},
	} {
		if status, said := post(t, address+"/v1/load", test.body); status != 200 || !strings.Contains(said, test.want) {
			t.Errorf("%.40s: %d, %s; want %s", test.body, status, said, test.want)
		}
	}
	if d, found, err := x.Get(t.Context(), "b"); !found || err != nil || d.Added.Year() != 2020 {
		t.Errorf("%+v, %v", d, err)
	}
	// One of a year of five digits is answered as any other.
	post(t, address+"/v1/load", `{"key":"late","fingerprint":"00000000ffff0000","tokens":9,"added":"9999-12-31T23:59:59-12:00"}`)
	if _, said := post(t, address+"/v1/check", `{"fingerprint":"00000000ffff0000","tokens":9}`); !strings.Contains(said, `"added":"9999-12-31T23:59:59Z"`) {
		t.Error(said)
	}
	// Other calls take lines as they did before there was a load.
	for _, added := range []string{`"yesterday"`, "12", "{}", `"2020-01-02T03:04:05Z"`} {
		line := `{"key":"b","fingerprint":"0000000000000007","tokens":9,"added":` + added + "}"
		if _, said := post(t, address+"/v1/check", line); !strings.Contains(said, `"unchanged"`) {
			t.Errorf("%s: %s", added, said)
		}
	}
	if status, said := post(t, address+"/v1/load?x=1", ""); status != http.StatusBadRequest {
		t.Error(status, said)
	}
}

// errMade ends documents.
var errMade = errors.New("made")

// A load that comes to no end, whatever ends it, leaves the documents of before, and room for the next one.
func TestLoadEndsEarly(t *testing.T) {
	x := open(t, nil)
	s, address := serve(t, x, Options{})
	c := dial(t, address, &client.Options{RetryFor: -1})
	// until goes on until a load is under way at the server, and does something then.
	until := func(end func() (index.Document, error)) iter.Seq2[index.Document, error] {
		return func(yield func(index.Document, error) bool) {
			for n := 0; ; n++ {
				d, err := index.Document{Fingerprint: checkFingerprint(n, 3), Tokens: 7}, error(nil)
				if n > 1000 && s.compacting.Load() {
					d, err = end()
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	for name, test := range map[string]struct {
		end  func() (index.Document, error)
		says func(error) bool
	}{
		"its documents fail":         {func() (d index.Document, _ error) { return d, errMade }, func(err error) bool { return err == errMade }},
		"a pipe of theirs is closed": {func() (d index.Document, _ error) { return d, io.ErrClosedPipe }, func(err error) bool { return err == io.ErrClosedPipe }},
		"a document is too large":    {func() (index.Document, error) { return index.Document{Key: strings.Repeat("a", 1<<17)}, nil }, func(err error) bool { return errors.Is(err, index.ErrTooLarge) }},
		"it is cancelled":            {func() (d index.Document, _ error) { cancel(); return d, nil }, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		if _, _, err := c.Load(ctx, until(test.end)); !test.says(err) {
			t.Errorf("%s: %v", name, err)
		}
		waitFor(t, func() bool { return !s.compacting.Load() })
		if n := x.Stats().Documents; n != 0 {
			t.Fatalf("%s: %d documents are stored", name, n)
		}
		if ctx.Err() != nil {
			ctx, cancel = context.WithCancel(t.Context())
		}
	}
	defer cancel()
	// One goes on at a time, and ends as the server does.
	refused := false
	_, _, err := c.Load(t.Context(), until(func() (d index.Document, _ error) {
		if !refused {
			refused = true
			if _, _, err := c.Load(t.Context(), testgen.Sequence[index.Document](nil)); !errors.Is(err, client.ErrBusy) {
				t.Error("a second load:", err)
			}
			if status, said := post(t, address+"/v1/compact", ""); status != http.StatusServiceUnavailable {
				t.Error("a compaction:", said)
			}
			s.stop()
		}
		return d, nil
	}))
	if !errors.Is(err, client.ErrClosed) || !refused {
		t.Error("a load while the server stops:", err)
	}
	if n := x.Stats().Documents; n != 0 {
		t.Errorf("%d documents are stored", n)
	}
}

// A caller who dawdles is cut off, and stores nothing.
func TestLoadDawdles(t *testing.T) {
	t.Parallel()
	x := open(t, nil)
	_, address := serve(t, x, Options{Limits: Limits{IdleTime: 50 * time.Millisecond, BodyTime: 50 * time.Millisecond}})
	slow := func(yield func(index.Document, error) bool) {
		for n := 0; yield(index.Document{Fingerprint: checkFingerprint(n, 3), Tokens: 7}, nil); n++ {
			if n == 2000 {
				time.Sleep(500 * time.Millisecond)
			}
		}
	}
	if _, _, err := dial(t, address, &client.Options{RetryFor: -1}).Load(t.Context(), slow); err == nil || x.Stats().Documents != 0 {
		t.Errorf("%d documents are stored: %v", x.Stats().Documents, err)
	}
}

// A caller who is refused hears so at once, whose body has not ended.
func TestRefusedInMidBody(t *testing.T) {
	s, address := serve(t, open(t, nil), Options{Token: "a token of some length"})
	if _, end, err := s.packing(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		defer end()
	}
	const known = " HTTP/1.1\r\nAuthorization: Bearer a token of some length"
	for head, want := range map[string]string{
		"POST /v1/load" + known:                                   `"code":"busy"`,
		"POST /v1/load HTTP/1.1":                                  `"code":"unauthorized"`,
		"POST /v1/check HTTP/1.1":                                 `"code":"unauthorized"`,
		"POST /v1/chekc" + known:                                  `"code":"not_found"`,
		"PUT /v1/check" + known:                                   `"code":"not_allowed"`,
		"POST /v1/check?keys=a" + known:                           `"code":"bad_request"`,
		"POST /v1/check?key=a&kind=a" + known:                     `"code":"bad_request"`,
		"POST /v1/check" + known + "\r\nNeardup-Since: x":         `"code":"bad_request"`,
		"POST /v1/check" + known + "\r\nOrigin: http://a.example": `"code":"forbidden"`,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		must(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second)) // the body has a minute
		io.WriteString(conn, head+"\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\n\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(head, err)
		}
		if answer, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %v; want %s", head, answer, err, want)
		}
	}
}
