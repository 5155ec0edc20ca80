// Package fingerprint computes 64-bit fingerprints of texts. The fingerprints of texts that share
// most of their words differ in few bits. There are two methods. The default is MinHash with one
// bit per bin (Li and König 2010). The other is simhash, Charikar's similarity hash ("Similarity
// estimation techniques from rounding algorithms", STOC 2002). Section 2 of Manku, Jain and Das
// Sarma, "Detecting Near-Duplicates for Web Crawling" (WWW 2007), uses it.
//
// A fingerprint depends only on the text and the [Options]. It does not depend on the machine, the
// Go release or the run. Texts that differ only in case, Unicode normal form, width, compatibility
// forms, order of combining marks or invisible characters have equal fingerprints. [Analyzer.Name]
// changes if any fingerprint changes, so only fingerprints of Analyzers with equal names may be
// compared.
//
// Most programs need only the [Analyzer], or package page, which calls it. A caller with its own
// features computes them from [Tokens] and adds their hashes to an [Accumulator], as the examples
// show. Section 2 of the paper names such features: stop words, stemming, phrases and weights by
// rarity.
package fingerprint

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// Fingerprint is a 64-bit hash that is compared by Hamming distance: the fingerprint of
// a text, or any other such hash. In JSON it is a string of 16 hex digits.
type Fingerprint uint64

// ErrSyntax is wrapped by the error of [Parse] if a text is not a fingerprint.
var ErrSyntax = errors.New("not a fingerprint")

// Distance returns the Hamming distance: the number of bits, 0 to 64, in which f and g
// differ.
func (f Fingerprint) Distance(g Fingerprint) int {
	return bits.OnesCount64(uint64(f ^ g))
}

// String returns 16 lower-case hex digits, the most significant first.
func (f Fingerprint) String() string {
	return string(f.appendHex(make([]byte, 0, 16)))
}

func (f Fingerprint) appendHex(b []byte) []byte {
	var whole [8]byte
	binary.BigEndian.PutUint64(whole[:], uint64(f))
	return hex.AppendEncode(b, whole[:])
}

// AppendText appends the result of String to b. The error is always nil.
func (f Fingerprint) AppendText(b []byte) ([]byte, error) {
	return f.appendHex(b), nil
}

// MarshalText returns the bytes of String. The error is always nil.
func (f Fingerprint) MarshalText() ([]byte, error) {
	return f.appendHex(make([]byte, 0, 16)), nil
}

// UnmarshalText reads the forms that [Parse] reads.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	g, err := Parse(string(text))
	if err != nil {
		return err
	}
	*f = g
	return nil
}

// Parse reads a fingerprint:
//
//   - 0x or 0X and 1 to 16 hex digits: hexadecimal;
//   - else exactly 16 characters: hexadecimal, as String writes it;
//   - else 1 to 20 decimal digits, at most 18446744073709551615: decimal.
//
// A string of exactly 16 decimal digits is therefore read as hexadecimal. If numbers are
// known to be decimal, use strconv.ParseUint instead. Hex digits may be of either case.
// Signs, spaces and underscores are errors. The error wraps [ErrSyntax].
func Parse(s string) (Fingerprint, error) {
	digits, base := s, 10
	switch {
	case len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'):
		digits, base = s[2:], 16
	case len(s) == 16:
		base = 16
	}
	n, err := strconv.ParseUint(digits, base, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%w: %s is above 2^64-1", ErrSyntax, quote(s))
	case err != nil || base == 16 && len(digits) > 16:
		return 0, fmt.Errorf(
			"%w: %s; want 16 hex digits, 0x and 1 to 16 hex digits, or a decimal number below 2^64",
			ErrSyntax, quote(s))
	}
	return Fingerprint(n), nil
}

// quote quotes the beginning of s, so that an error about a long input stays readable.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
