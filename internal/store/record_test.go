package store

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRecordReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			Fingerprint: rapid.Uint64().Draw(t, "fingerprint"),
			Shingle:     rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "shingle"),
			Tokens:      rapid.Uint32().Draw(t, "length"),
			Scope:       rapid.String().Draw(t, "scope"),
			Key:         string(rapid.SliceOf(rapid.Byte()).Draw(t, "key")),
		}
		got, err := DecodeRecord(r.Append([]byte("before"))[len("before"):])
		if err != nil || got != r {
			t.Fatalf("%+v reads back as %+v, %v", r, got, err)
		}
	})
	long := Record{Scope: strings.Repeat("s", 64<<10), Key: strings.Repeat("k", 64<<10)}
	if got, err := DecodeRecord(long.Append(nil)); err != nil || got != long {
		t.Errorf("a long record reads back differently: %v", err)
	}
}

// TestRecordBytes has the bytes of docs/format.md.
func TestRecordBytes(t *testing.T) {
	for want, r := range map[string]Record{
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08key":                                            {Fingerprint: 0x0102030405060708, Key: "key"},
		"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x01s":          {Shingle: 9, Scope: "s"},
		"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\xac\x02\x01sk": {Shingle: 9, Tokens: 300, Scope: "s", Key: "k"},
		"\x02\x00\x00\x00\x00\x00\x00\x00\x00\x02\xff\xfe\x00":                               {Scope: "\xff\xfe", Key: "\x00"},
	} {
		if got := r.Append(nil); string(got) != want {
			t.Errorf("%+v is written %x, not %x", r, got, want)
		}
	}
}

func TestRecordIsRefused(t *testing.T) {
	for what, value := range map[string]string{
		"empty":                   "",
		"fingerprint breaks off":  "\x00\x01\x02\x03\x04\x05\x06\x07",
		"unknown flag":            "\x08\x01\x02\x03\x04\x05\x06\x07\x08",
		"shingle breaks off":      "\x01\x01\x02\x03\x04\x05\x06\x07\x08\x01",
		"no length":               "\x04\x01\x02\x03\x04\x05\x06\x07\x08",
		"length of 0":             "\x04\x01\x02\x03\x04\x05\x06\x07\x08\x00",
		"length of 33 bits":       "\x04\x01\x02\x03\x04\x05\x06\x07\x08\x80\x80\x80\x80\x10",
		"no scope length":         "\x02\x01\x02\x03\x04\x05\x06\x07\x08",
		"scope breaks off":        "\x02\x01\x02\x03\x04\x05\x06\x07\x08\x02s",
		"scope length of 2^64-1":  "\x02\x01\x02\x03\x04\x05\x06\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01s",
		"scope length of 65 bits": "\x02\x01\x02\x03\x04\x05\x06\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02s",
	} {
		if r, err := DecodeRecord([]byte(value)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(Record{Fingerprint: 1, Shingle: 2, Scope: "scope", Key: "key"}.Append(nil))
	f.Add(Record{}.Append(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := DecodeRecord(value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeRecord(r.Append(nil)); err != nil || again != r {
			t.Fatalf("%+v reads back as %+v, %v", r, again, err)
		}
	})
}
