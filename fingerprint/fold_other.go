//go:build !amd64 || purego

package fingerprint

// add counts the hashes of whole blocks.
func (l *lanes) add(hashes []uint64) { l.addPortable(hashes) }
