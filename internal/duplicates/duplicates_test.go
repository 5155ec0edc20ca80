package duplicates

import (
	"fmt"
	"slices"
	"testing"
)

func TestHost(t *testing.T) {
	for key, want := range map[string]string{
		"http://Example.COM/a":                     "example.com",
		"https://user:pass@example.com:8080?q=://": "example.com",
		"https://user:p@ss@example.com./a":         "example.com",
		"http://example.com.":                      "example.com",
		"http://example.com#x@y":                   "example.com",
		"http://example.com\\@evil":                "example.com",
		"http://example.com":                       "example.com",
		"http://a.example.com/":                    "a.example.com",
		"http://example.com.evil/":                 "example.com.evil",
		"http://[2001:DB8::1]:80/":                 "[2001:db8::1]",
		"http://[2001:db8::1":                      "",
		"http://a b/%zz":                           "a b",
		"http://":                                  "",
		"http:///path":                             "",
		"://example.com/":                          "",
		"dns:example.com":                          "",
		"a/path.html":                              "",
		"dir/a.jsonl#1":                            "",
		"a/b?u=http://example.com/":                "",
		"notes: see http://example.com/":           "",
		"page 1":                                   "",
		"":                                         "",
	} {
		if got := Host(key); got != want {
			t.Errorf("Host(%q) = %q, want %q", key, got, want)
		}
		if SameSite(key, key) != (want != "") ||
			SameSite(key, "https://example.com:8443/#top") != (want == "example.com") {
			t.Errorf("SameSite(%q, ...) does not compare hosts", key)
		}
	}
}

func TestTextsEstimate(t *testing.T) {
	var texts Texts
	for i := range uint64(64) {
		if got := texts.AtLeast(); got != int(i) {
			t.Fatalf("%d bits: at least %d", i, got)
		}
		if got := texts.Estimate(); got < int(i) || i <= 6 && got != int(i) {
			t.Errorf("%d bits: estimate %d", i, got)
		}
		texts |= TextOf(i)
	}
	if got := texts.Estimate(); got != 266 {
		t.Errorf("all bits: estimate %d, want 266", got)
	}
}

func TestTable(t *testing.T) {
	var table Table
	if len(table.Crowded()) > 0 || table.Len() != 0 || table.Pending(1) != (Count{}) {
		t.Fatal("the zero Table is not empty")
	}
	for i := range uint64(40) {
		table.Add(7, "https://a.example/", TextOf(i))
		table.Add(8, "https://a.example/8", TextOf(3))
		table.Add(9, "", 0)
	}
	if got := table.Pending(7); got.Checks != 40 || got.Texts.AtLeast() != 40 {
		t.Errorf("document 7: %+v", got)
	}
	if got, want := table.Pending(8), (Count{40, TextOf(3)}); got != want {
		t.Errorf("document 8: %+v, want %+v", got, want)
	}
	crowded := table.Crowded()
	if len(crowded) != 1 || crowded[0].ID != 7 || crowded[0].Key != "https://a.example/" {
		t.Errorf("crowded: %+v", crowded)
	}
	var stored []string
	table.Each(func(id uint64, c Count) { stored = append(stored, fmt.Sprint(id, c.Checks)) })
	if want := []string{"7 40", "8 40", "9 40"}; !slices.Equal(stored, want) {
		t.Errorf("%q, want %q", stored, want)
	}
	table.Stored()
	if table.Len() != 0 || table.Pending(7) != (Count{}) {
		t.Error("counts are pending after they were stored")
	}
	if !slices.Equal(table.Crowded(), crowded) {
		t.Error("Stored forgets the crowded documents")
	}
	table.Remove(7)
	if crowded := table.Crowded(); len(crowded) > 0 {
		t.Errorf("crowded after the removal: %+v", crowded)
	}
}

// TestTableIsBounded tests that the number of documents is bounded, and that documents with many
// texts are kept.
func TestTableIsBounded(t *testing.T) {
	var table Table
	for i := range uint64(30_000) {
		table.Add(1000+i, fmt.Sprint("https://other.example/", i), TextOf(i))
		table.Add(i%3+1, "https://crowded.example/", TextOf(i/100))
		table.Stored()
		if len(table.pages) > maxPages {
			t.Fatalf("%d documents are followed", len(table.pages))
		}
	}
	if crowded := table.Crowded(); len(crowded) != 3 || crowded[0].ID != 1 || crowded[2].ID != 3 {
		t.Errorf("crowded: %+v", crowded)
	}
}
