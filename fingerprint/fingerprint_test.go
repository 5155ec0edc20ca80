package fingerprint

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Fingerprint
	}{
		{"0123456789abcdef", 0x0123456789abcdef},
		{"FFFFFFFFFFFFFFFF", math.MaxUint64},
		{"1234567890123456", 0x1234567890123456}, // 16 digits are hexadecimal
		{"0x0", 0},
		{"0Xff", 255},
		{"0x0123456789abcdef", 0x0123456789abcdef},
		{"0x00000000000000", 0}, // 16 bytes, but not 16 hex digits
		{"0", 0},
		{"007", 7},
		{"123456789012345", 123456789012345},
		{"12345678901234567", 12345678901234567},
		{"18446744073709551615", math.MaxUint64},
	} {
		got, err := Parse(c.in)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q) = %v, %v; want %v", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{
		"", " ", "0x", "x1", "+1", "-1", "1_000", "0x+1", " 1", "1 ", "abc", "0x12345678901234567",
		"0123456789abcdeg", "18446744073709551616", "0b1", "1e3", strings.Repeat("9", 1000), "٣",
	} {
		if got, err := Parse(in); !errors.Is(err, ErrSyntax) || got != 0 {
			t.Errorf("Parse(%q) = %v, %v; want ErrSyntax", in, got, err)
		} else if len(err.Error()) > 250 {
			t.Errorf("Parse(%.20q...): error of %d bytes", in, len(err.Error()))
		}
	}
}

// In JSON, fingerprints, digests and shingle signatures are hexadecimal digits.
func TestJSON(t *testing.T) {
	type document struct {
		Fingerprint Fingerprint
		Digest      Digest           `json:",omitzero"`
		Shingles    ShingleSignature `json:",omitzero"`
	}
	const shingles = "0000000000000001" + "0000000000abcdef" + "8000000000000000" +
		"ffffffffffffffff"
	all := document{0xabc, 0xff, ShingleSignature{1, 0xabcdef, 1 << 63, math.MaxUint64}}
	for text, want := range map[string]document{
		`{"Fingerprint":"0000000000000abc"}`: {Fingerprint: 0xabc},
		`{"Fingerprint":"0000000000000abc","Digest":"00000000000000ff","Shingles":"` + shingles +
			`"}`: all,
	} {
		b, err := json.Marshal(want)
		var got document
		if err != nil || string(b) != text || json.Unmarshal(b, &got) != nil || got != want {
			t.Errorf("%s, %v, want %s; %+v", b, err, text, got)
		}
	}
	if text := all.Shingles.String(); text != shingles {
		t.Errorf("%s, want %s", text, shingles)
	}
	var upper ShingleSignature
	err := upper.UnmarshalText([]byte(strings.ToUpper(shingles)))
	if err != nil || upper != all.Shingles {
		t.Errorf("%v, %v", upper, err)
	}
	for _, bad := range []string{`{"Fingerprint":"no"}`, `{"Digest":"xyz"}`, `{"Shingles":""}`,
		`{"Shingles":"1"}`, `{"Shingles":"` + shingles[1:] + `"}`,
		`{"Shingles":"` + shingles + `0"}`, `{"Shingles":"x` + shingles[1:] + `"}`,
		`{"Shingles":"0x` + shingles[2:] + `"}`,
		`{"Shingles":"` + strings.Repeat(shingles, 100) + `"}`} {
		got := all
		if err := json.Unmarshal([]byte(bad), &got); !errors.Is(err, ErrSyntax) || got != all ||
			len(err.Error()) > 250 {
			t.Errorf("%.100s: %+v, %v", bad, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "0x1f", "0123456789abcdef", "18446744073709551615", "", "0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fp, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatalf("Parse(%q): %v does not wrap ErrSyntax", s, err)
			}
			return
		}
		text := fp.String()
		again, err := Parse(text)
		if err != nil || again != fp || len(text) != 16 || strings.ToLower(text) != text {
			t.Fatalf("Parse(%q) = %v, then %v, %v", s, fp, again, err)
		}
	})
}
