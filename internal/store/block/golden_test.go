package block

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The golden blocks are one of each codec, with and without postings. They may
// change only with the format number.
func TestBlockGolden(t *testing.T) {
	fps := []uint64{0x0123456789abcdef, 0x0123456789abcdf0, 0x0123456800000000, 0x4000000000000000, 0x8000000000000000, 0xffffffffffffffff}
	many := make([]uint64, 40)
	for i := range many {
		many[i] = uint64(3 * (i + 1))
	}
	postings := []IDs{NewIDs(70), NewIDs(5), NewIDs(6, 9, 1000), NewIDs(12), NewIDs(many...), NewIDs(33)}
	var h BitHistogram
	for i := 1; i < len(fps); i++ {
		h.Add(fps[i-1], fps[i])
	}
	h[37], h[38] = 100, 50
	code := NewHuffmanCode(&h)
	var out strings.Builder
	marshalled, err := code.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "code\n%s", hex.Dump(marshalled))
	for _, codec := range []Codec{Huffman, EliasFano} {
		for _, with := range []bool{false, true} {
			w, err := NewWriter(Options{Codec: codec, Code: code, Postings: with}, func(_ uint64, data []byte) error {
				fmt.Fprintf(&out, "codec %d, postings %v\n%s", codec, with, hex.Dump(data))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, fp := range fps {
				if with {
					err = w.AddPosting(fp, postings[i])
				} else {
					err = w.Add(fp)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	golden, err := os.ReadFile("testdata/block.golden")
	if err != nil || string(golden) != out.String() {
		t.Errorf("%v; blocks are now\n%s", err, out.String())
	}
}
