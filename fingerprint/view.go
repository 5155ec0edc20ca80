package fingerprint

import "unsafe"

// viewBytes gives the bytes of s without a copy. Nothing in this package writes
// to a text or keeps it after the call, which TestTextIsNotKept holds.
func viewBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
