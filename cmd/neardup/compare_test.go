package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCompareURLs(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Write([]byte("<html><body>The ferry leaves at <b>nine</b>.</body></html>"))
		case "/image":
			w.Header().Set("Content-Type", "image/png")
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	file := writeFile(t, "page.txt", "The ferry leaves at ten.")
	for _, c := range []struct {
		url  string
		code int
		want string
	}{
		{"/page", exitDone, "[-ten.-] {+nine.+}"},
		{"/image", exitFailed, "not text: image/png"},
		{"/none", exitFailed, "404 Not Found"},
	} {
		if code, out, errs := runHere("", "compare", file, site.URL+c.url); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: %d, %s%s", c.url, code, out, errs)
		}
	}
}
