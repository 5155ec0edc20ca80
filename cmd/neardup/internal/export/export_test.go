package export

import (
	"strings"
	"testing"

	"github.com/neardup/neardup/cmd/neardup/internal/corpus"
	"github.com/neardup/neardup/internal/testing/testgen"
)

// TestDamagedExport tests that a damaged or truncated export is refused, also if only its
// checksum or its end is wrong.
func TestDamagedExport(t *testing.T) {
	const whole = `{"neardupIndex":{"maxDistance":3,"documents":2}}` + "\n" +
		`{"key":"a","fingerprint":"0000000000000007"}` + "\n" +
		`{"fingerprint":"0000000000000008"}` + "\n"
	packed := testgen.Gzip(whole)
	flipped := []byte(packed)
	flipped[len(flipped)-6] ^= 1
	for _, test := range []struct{ in, problem string }{
		{whole, ""},
		{strings.TrimSpace(whole), ""},
		{packed, ""},
		{string(flipped),
			"line 4, byte 128: after the 2 documents that its first line promises: bad gzip"},
		{packed[:len(packed)-3], "truncated gzip"},
		{packed + "rubbish", "bad gzip"},
		{whole + "}", "after the 2 documents"},
		{whole + "]", "after the 2 documents"},
		{whole + `{"fingerprint":"0000000000000008"}`, "more documents than the 2"},
		{strings.Replace(whole, `,"fingerprint":"0000000000000007"`, "", 1),
			"line 2, byte 60: no fingerprint"},
		{strings.Replace(whole, `"0000000000000007"`, "null", 1), "no fingerprint"},
	} {
		in, err := corpus.Open("-", strings.NewReader(test.in))
		if err != nil {
			t.Fatal(err)
		}
		problem := ""
		for _, err := range Documents(in, 2) {
			if err != nil {
				problem = err.Error()
			}
		}
		if test.problem == "" && problem != "" || !strings.Contains(problem, test.problem) {
			t.Errorf("%.200q: %q, want %q", test.in, problem, test.problem)
		}
	}
}
