package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Pebble takes the first record of a log or MANIFEST that it cannot read for one that a
// crash cut off, and goes on without the rest. So Close writes down what these files hold
// (docs/format.md, DIGEST), and Open compares. A digest counts as long as the MANIFEST that
// it names is the current one: each Open for writing begins another.
const (
	digestName  = "DIGEST"
	digestMagic = "neardup digest 1\n"
)

// fileDigest is one line of a digest.
type fileDigest struct {
	name string
	size int64
	sum  uint64 // xxhash64 of the content
}

// writeDigest writes the digest of the database in dir, durably. No one may write to it.
func writeDigest(dir string, fsys vfs.FS) error {
	manifest, err := currentManifest(dir, fsys)
	if err != nil {
		return err
	}
	logs, err := neededLogs(dir, manifest, fsys)
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return nil // then the next Open begins no other MANIFEST
	}
	names := []string{manifest.name}
	for _, l := range logs {
		names = append(names, logName(uint64(l.Num)))
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
	return replaceFile(dir, digestName, text, fsys)
}

func digestOf(dir, name string, fsys vfs.FS) (fileDigest, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, name), vfs.SequentialReadsOption)
	if err != nil {
		return fileDigest{}, err
	}
	hash := xxhash.New()
	size, err := io.Copy(hash, f)
	return fileDigest{name, size, hash.Sum64()}, errors.Join(err, f.Close())
}

// replaceFile puts a file with this content in the place of one, durably and in one step.
func replaceFile(dir, name string, content []byte, fsys vfs.FS) error {
	next := fsys.PathJoin(dir, name+".new")
	f, err := fsys.Create(next, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fsys.Rename(next, fsys.PathJoin(dir, name))
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(next))
	}
	return syncDir(dir, fsys)
}

// readDigest returns the digest in dir; nothing if there is none that can be read.
func readDigest(dir string, fsys vfs.FS) ([]fileDigest, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, digestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return parseDigest(text), nil
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

// currentDigest returns the digest in dir. closed reports whether there is one that counts, so that
// the database should be as Close left it.
func currentDigest(dir string, fsys vfs.FS) (digests []fileDigest, closed bool, err error) {
	digests, err = readDigest(dir, fsys)
	if err != nil || len(digests) < 2 {
		return nil, false, err
	}
	current, err := atomicfs.ReadMarker(fsys, dir, "manifest")
	if err != nil || current != digests[0].name {
		return nil, false, err
	}
	logs, err := wal.Scan(wal.Dir{FS: fsys, Dirname: dir})
	if err != nil || len(logs) == 0 {
		return digests, err == nil, err
	}
	newest := digests[len(digests)-1].name
	return digests, uint64(logs[len(logs)-1].Num) <= fileNumber(newest, ""), nil // a newer one: Open was begun since
}

// checkDigest compares the files with the digest, if there is one that counts.
func checkDigest(dir string, fsys vfs.FS) (closed bool, err error) {
	digests, closed, err := currentDigest(dir, fsys)
	if !closed || err != nil {
		return closed, err
	}
	for _, was := range digests {
		path := fsys.PathJoin(dir, was.name)
		is, err := digestOf(dir, was.name, fsys)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return true, damaged(path, "is missing")
		case err != nil:
			return true, err
		case is != was:
			return true, damaged(path, "is not as it was when the index was closed")
		}
	}
	return true, nil
}

// damaged is ErrCorrupt for a file.
func damaged(path, what string) error {
	return fmt.Errorf("%w: %s %s; %s", ErrCorrupt, path, what, whatToDo)
}

const whatToDo = "open a checkpoint of before, or save what can be read with repair"
