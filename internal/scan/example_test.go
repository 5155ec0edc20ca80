package scan_test

import (
	"fmt"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/scan"
)

func Example() {
	asked := []fingerprint.Fingerprint{0x00ff00ff00ff00ff, 0x123456789abcdef0}
	queries, err := scan.New(asked, 3, 3)
	if err != nil {
		panic(err)
	}
	// The collection comes in blocks, from a file, say; several goroutines may scan at
	// the same time.
	block := []uint64{0x0123456789abcdef, 0x00ff00ff00ff00fe, 0x123456789abcdef0}
	queries.Scan(block, func(m scan.Match) {
		fmt.Printf("%016x is within %d bits of query %d\n", block[m.At], m.Distance, m.Query)
	})
	// Unordered output:
	// 00ff00ff00ff00fe is within 1 bits of query 0
	// 123456789abcdef0 is within 0 bits of query 1
}
