package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/index"
)

// FuzzMemberOutput holds what is written of a member to encoding/csv and encoding/json.
func FuzzMemberOutput(f *testing.F) {
	for _, key := range append([]string{"", "a,b", `a"b`, " a", `\.`, "\u00a0a", "a\\b", "<&>", "a\u2028b", "\x7f\u0085"}, hostileKeys...) {
		f.Add(key, 1)
	}
	f.Fuzz(func(t *testing.T, key string, documents int) {
		m := member{Document: index.Document{ID: 7, Key: key, Fingerprint: 0xff}, Documents: documents}
		m.list = func(yield func(index.Document, error) bool) { yield(m.Document, nil) }
		var out bytes.Buffer
		w := newJoinWriters("csv", bufio.NewWriter(&out), 1)[0]
		c := clusterOf([]member{m})
		if err := w.cluster(c); err != nil {
			t.Fatal(err)
		}
		if err := cmp.Or(w.flush(), w.out.Flush()); err != nil {
			t.Fatal(err)
		}
		fields, err := csv.NewReader(bytes.NewReader(out.Bytes())).Read()
		if err != nil || len(fields) != 6 || corpus.UnquoteKey(fields[3]) != key {
			t.Fatalf("%q in CSV is %q: %q, %v", key, out.Bytes(), fields, err)
		}
		var again bytes.Buffer
		table := csv.NewWriter(&again)
		table.Write(fields)
		if table.Flush(); again.String() != out.String() {
			t.Errorf("%q in CSV is %q, to encoding/csv %q", key, out.Bytes(), again.Bytes())
		}
		line := w.appendMember(nil, &m)
		want := newLines(nil).encode(memberLine{m.ID, m.Key, keyBytes(m.Key), m.Fingerprint, m.Documents})
		if documents >= 0 && !bytes.Equal(line, want) {
			t.Errorf("%q in JSON is %s, to encoding/json %s", key, line, want)
		}
		var back struct {
			ID          uint64
			Key         string
			Fingerprint string
			Documents   int
		}
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%q in JSON is %s: %v", key, line, err)
		}
		if wantKey := strings.ToValidUTF8(key, "\ufffd"); back.ID != 7 || utf8.ValidString(key) && back.Key != wantKey || back.Fingerprint != "00000000000000ff" || back.Documents != max(documents, 0) {
			t.Errorf("%q in JSON is %s", key, line)
		}
	})
}
