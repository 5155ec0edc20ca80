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

func TestFingerprintJSON(t *testing.T) {
	type record struct{ F Fingerprint }
	b, err := json.Marshal(record{0xabc})
	if err != nil || string(b) != `{"F":"0000000000000abc"}` {
		t.Fatalf("Marshal: %s, %v", b, err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.F != 0xabc {
		t.Fatalf("Unmarshal: %v, %v", r, err)
	}
	if err := json.Unmarshal([]byte(`{"F":"no"}`), &r); !errors.Is(err, ErrSyntax) {
		t.Fatalf("Unmarshal of a bad one: %v", err)
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
