package surgeon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/neardup/neardup/internal/fault"
)

// Pebble takes the first record of a log or MANIFEST that it cannot read for one that a
// crash cut off, and goes on without the rest. So Close writes down what these files hold
// (docs/format.md, DIGEST), and Open compares. A digest counts as long as the MANIFEST that
// it names is the current one: each Open for writing begins another.
const (
	DigestName  = "DIGEST"
	digestMagic = "neardup digest 1\n"
)

// Check refuses a database whose MANIFEST or logs are damaged, as far as that can be told
// from what a crash leaves. Error: fault.ErrCorrupt, with the file.
func Check(dir string, fsys vfs.FS) error {
	digests, err := currentDigest(dir, fsys)
	if err != nil {
		return err
	}
	if len(digests) == 0 {
		return checkLogs(dir, fsys)
	}
	for _, was := range digests {
		path := fsys.PathJoin(dir, was.name)
		is, err := digestOf(dir, was.name, fsys)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Damaged(path, "is missing")
		case err != nil:
			return err
		case is != was:
			return Damaged(path, "is not as it was when the index was closed")
		}
	}
	return nil
}

// fileDigest is one line of a digest.
type fileDigest struct {
	name string
	size int
	sum  uint64 // xxhash64 of the content
}

func digestOf(dir, name string, fsys vfs.FS) (fileDigest, error) {
	data, err := ReadFile(fsys.PathJoin(dir, name), fsys)
	return fileDigest{name, len(data), xxhash.Sum64(data)}, err
}

// LogFiles returns the names of the MANIFEST in use and of the logs that are not yet in tables, ascending.
func LogFiles(dir string, fsys vfs.FS) ([]string, error) {
	m, err := currentManifest(dir, fsys)
	if err != nil {
		return nil, err
	}
	names := []string{m.name}
	logs, err := m.neededLogs(dir, fsys)
	for _, n := range logs {
		names = append(names, logName(n))
	}
	return names, err
}

// WriteDigest writes the digest of the database in dir, durably. No one may write to it.
func WriteDigest(dir string, fsys vfs.FS) error {
	names, err := LogFiles(dir, fsys)
	if err != nil || len(names) < 2 { // without a log, the next Open begins no other MANIFEST
		return err
	}
	text := []byte(digestMagic)
	for _, name := range names {
		d, err := digestOf(dir, name, fsys)
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s %d %016x\n", d.name, d.size, d.sum)
	}
	text = fmt.Appendf(text, "%016x\n", xxhash.Sum64(text))
	return replaceFile(dir, DigestName, text, fsys)
}

// HasDigest reports whether there is a digest in dir that can be read.
func HasDigest(dir string, fsys vfs.FS) (bool, error) {
	digests, err := readDigest(dir, fsys)
	return digests != nil, err
}

func readDigest(dir string, fsys vfs.FS) ([]fileDigest, error) {
	text, err := ReadFile(fsys.PathJoin(dir, DigestName), fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return parseDigest(text), err
}

func parseDigest(text []byte) (digests []fileDigest) {
	end := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
	if !bytes.HasPrefix(text, []byte(digestMagic)) || fmt.Sprintf("%016x\n", xxhash.Sum64(text[:end])) != string(text[end:]) {
		return nil
	}
	for line := range strings.Lines(string(text[len(digestMagic):end])) {
		var d fileDigest
		if _, err := fmt.Sscanf(line, "%s %d %x\n", &d.name, &d.size, &d.sum); err != nil {
			return nil
		}
		digests = append(digests, d)
	}
	return digests
}

// currentDigest returns the digest in dir, nothing if there is none that counts.
func currentDigest(dir string, fsys vfs.FS) ([]fileDigest, error) {
	digests, err := readDigest(dir, fsys)
	if err != nil || len(digests) < 2 {
		return nil, err
	}
	current, err := atomicfs.ReadMarker(fsys, dir, "manifest")
	if err != nil || current != digests[0].name {
		return nil, err
	}
	logs, err := manifest{}.neededLogs(dir, fsys)
	newest := fileNumber(digests[len(digests)-1].name, "")
	if err != nil || len(logs) > 0 && logs[len(logs)-1] > newest { // Open was begun since
		return nil, err
	}
	return digests, nil
}

// Damaged is fault.ErrCorrupt for a file, with what to do about it.
func Damaged(path, what string) error {
	return fmt.Errorf("%w: %s %s; %s", fault.ErrCorrupt, path, what, whatToDo)
}

const whatToDo = "open a checkpoint of before, or save what can be read with repair"
