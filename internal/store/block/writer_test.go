package block

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/neardup/neardup/internal/store/block/blocktest"
	"pgregory.net/rapid"
)

func TestBlockWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 3000)
		opts := Options{
			Codec:    rapid.SampledFrom([]Codec{Huffman, EliasFano}).Draw(t, "codec"),
			Code:     codeOf(fps),
			Bytes:    rapid.SampledFrom([]int{0, 64, 100, 512, 4096, 32768}).Draw(t, "bytes"),
			Postings: rapid.Bool().Draw(t, "postings"),
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0))
		ids := blocktest.Postings(t, random, len(fps), NewIDs)
		limit := opts.Bytes
		if limit == 0 {
			limit = DefaultBytes
		}
		var got []uint64
		previous := 0 // bytes of the last block
		w, err := NewWriter(opts, func(last uint64, data []byte) error {
			b := openBlock(t, data, opts.Code)
			if err := b.Verify(); err != nil {
				t.Fatal(err)
			}
			if b.Last() != last || b.Len() > 1 && len(data) > limit {
				t.Fatalf("block of %d bytes (limit %d) under key %016x, ends with %016x", len(data), limit, last, b.Last())
			}
			if opts.Postings {
				for i := range b.Len() {
					p, err := b.Posting(i)
					if err != nil {
						t.Fatal(err)
					}
					if want := ids[len(got)+i]; !slices.Equal(slices.Collect(p.All()), slices.Collect(want.All())) {
						t.Fatalf("posting of %016x: %v, want %v", fps[len(got)+i], p, want)
					}
				}
			}
			got = b.AppendTo(got)
			previous = len(data)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, fp := range fps {
			if opts.Postings {
				err = w.AddPosting(fp, ids[i])
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
		if !slices.Equal(got, fps) || previous == 0 {
			t.Fatalf("%d fingerprints came back, want %d", len(got), len(fps))
		}
	})
}

// The size that the writer reckons with is the size of the block.
func TestBlockSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fps := blocktest.Fingerprints(t, 600)
		code := codeOf(fps)
		if got := len(appendEliasFano(nil, fps, 0)); got != eliasFanoSize(len(fps), fps[0], fps[len(fps)-1]) {
			t.Fatalf("Elias-Fano: %d bytes, reckoned %d", got, eliasFanoSize(len(fps), fps[0], fps[len(fps)-1]))
		}
		stream := 0
		for i := 1; i < len(fps); i++ {
			stream += code.stepBits(fps[i-1], fps[i])
		}
		data, err := appendHuffman(nil, code, fps, 0)
		if err != nil || len(data) != huffmanSize(stream) {
			t.Fatalf("Huffman: %d bytes, reckoned %d, %v", len(data), huffmanSize(stream), err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ids"), 0))
		var postings []posting
		var shape postingShape
		for _, ids := range blocktest.Postings(t, random, len(fps), NewIDs) {
			p, err := newPosting(ids)
			if err != nil {
				t.Fatal(err)
			}
			postings = append(postings, p)
			shape = shape.with(p)
		}
		if got := len(appendPostings(nil, postings)); got != shape.size() {
			t.Fatalf("postings: %d bytes, reckoned %d", got, shape.size())
		}
	})
}
