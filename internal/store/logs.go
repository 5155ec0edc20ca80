package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// checkFiles refuses a database whose MANIFEST or logs are damaged, as far as that can be told
// from what a crash leaves.
func checkFiles(dir string, fsys vfs.FS) error {
	if closed, err := checkDigest(dir, fsys); closed || err != nil {
		return err
	}
	return checkLogs(dir, fsys)
}

// manifest is what a MANIFEST says of the logs.
type manifest struct {
	name     string
	firstLog uint64 // no log before it is needed
	lastSeq  uint64 // sequence number that was given out last
}

// currentManifest reads the MANIFEST that is the current one.
func currentManifest(dir string, fsys vfs.FS) (m manifest, err error) {
	if m.name, err = atomicfs.ReadMarker(fsys, dir, "manifest"); err != nil || m.name == "" {
		return m, err
	}
	path := fsys.PathJoin(dir, m.name)
	data, err := readFile(path, fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return m, damaged(path, "is missing")
	}
	if err != nil {
		return m, err
	}
	r := record.NewReader(strings.NewReader(string(data)), 0)
	for {
		at := r.Offset()
		edit, err := r.Next()
		var content []byte
		if err == nil {
			content, err = io.ReadAll(edit)
		}
		if err == io.EOF {
			return m, nil
		}
		if !unreadable(err) && err != nil {
			return m, err
		}
		if err != nil {
			if !recordBegins(data, at+1) {
				return m, nil
			}
			return m, damaged(path, fmt.Sprintf("cannot be read at byte %d, and what is behind it can", at))
		}
		m.apply(content)
	}
}

func readFile(path string, fsys vfs.FS) ([]byte, error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// apply takes what an edit says. What says of logs and sequence numbers stands before all that
// is of tables.
func (m *manifest) apply(edit []byte) {
	next := func() uint64 {
		v, n := binary.Uvarint(edit)
		edit = edit[max(n, 0):]
		return v
	}
	for len(edit) > 0 {
		switch next() {
		case tagComparer:
			n := next()
			edit = edit[min(n, uint64(len(edit))):]
		case tagFirstLog:
			m.firstLog = next()
		case tagLastSeq:
			m.lastSeq = max(m.lastSeq, next())
		case tagCreatedBacking:
			next()
			next()
		case tagNextFile, tagPrevLog, tagRemovedBacking:
			next()
		default:
			return
		}
	}
}

// recordBegins reports whether a record of a MANIFEST begins at a byte or behind it. Each was
// synced before the next one was begun.
func recordBegins(data []byte, from int64) bool {
	const blockLen, headerLen, whole, first = 32 << 10, 7, 1, 2
	for at := int(from); at+headerLen <= len(data); at++ {
		end := at + headerLen + int(binary.LittleEndian.Uint16(data[at+4:]))
		if kind := data[at+6]; (kind == whole || kind == first) && end <= len(data) && end <= (at/blockLen+1)*blockLen &&
			checksum(data[at+6:end]) == binary.LittleEndian.Uint32(data[at:]) {
			return true
		}
	}
	return false
}

// neededLogs returns the logs that are not yet in tables, the oldest first.
func neededLogs(dir string, m manifest, fsys vfs.FS) (wal.Logs, error) {
	logs, err := wal.Scan(wal.Dir{FS: fsys, Dirname: dir})
	return slices.DeleteFunc(logs, func(l wal.LogicalLog) bool { return uint64(l.Num) < m.firstLog }), err
}

func logName(n uint64) string { return fmt.Sprintf("%06d.log", n) }

// checkLogs sees that no log is missing before the last one there is: every batch in a log has
// the sequence number at which the one before it ended. Only an ingestion takes numbers without
// a word in the log. Rewrite.Commit makes the only ones, with all logs before it in tables,
// and the MANIFEST says up to where.
func checkLogs(dir string, fsys vfs.FS) error {
	m, err := currentManifest(dir, fsys)
	if err != nil || m.name == "" {
		return err
	}
	logs, err := neededLogs(dir, m, fsys)
	if err == nil {
		err = checkFirstLog(dir, m, logs, fsys)
	}
	next := max(m.lastSeq+1, firstSeq)
	for i := 0; err == nil && i < len(logs); i++ {
		var first, end uint64
		first, end, err = sequenceOf(logs[i], i == len(logs)-1)
		if err == nil && end > 0 && first > next {
			err = damaged(fsys.PathJoin(dir, logName(uint64(logs[i].Num))),
				fmt.Sprintf("begins with write %d, and the log before it, with those from %d on, is missing", first, next))
		}
		next = max(next, end)
	}
	return err
}

// checkFirstLog sees that the oldest log that is needed is there. Where tables were written since
// the database was opened, the MANIFEST names it. Before that it is the one that Open began,
// after the MANIFEST and before the OPTIONS file.
func checkFirstLog(dir string, m manifest, logs wal.Logs, fsys vfs.FS) error {
	begun := fileNumber(m.name, "MANIFEST-")
	oldest := uint64(math.MaxUint64)
	if len(logs) > 0 {
		oldest = uint64(logs[0].Num)
	}
	if m.firstLog > begun {
		if oldest != m.firstLog {
			return damaged(fsys.PathJoin(dir, logName(m.firstLog)), "is missing")
		}
		return nil
	}
	names, err := fsys.List(dir)
	for _, name := range names {
		if opened := fileNumber(name, "OPTIONS-"); opened > begun && oldest > opened {
			return damaged(dir, fmt.Sprintf("lacks its first log, which has a number from %d to %d", begun+1, opened-1))
		}
	}
	return err
}

// fileNumber returns the number in the name of a file of Pebble's; 0 if it does not begin so.
func fileNumber(name, prefix string) uint64 {
	digits, _ := strings.CutPrefix(name, prefix)
	digits, _, _ = strings.Cut(digits, ".")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

// sequenceOf returns the first sequence number in a log, and the one behind its last; 0 if it has
// no write. What cannot be read is its end here: Pebble judges that. Of the last log there is,
// only the first batch is read.
func sequenceOf(log wal.LogicalLog, last bool) (first, end uint64, err error) {
	r := log.OpenForRead()
	defer r.Close()
	for {
		batch, _, err := r.NextRecord()
		switch {
		case err == io.EOF || unreadable(err) || pebble.IsCorruptionError(err):
			return first, end, nil
		case err != nil:
			return 0, 0, err
		}
		content, err := io.ReadAll(batch)
		if err != nil {
			return 0, 0, err
		}
		if h, ok := batchrepr.ReadHeader(content); ok {
			if end == 0 {
				first = uint64(h.SeqNum)
			}
			end = uint64(h.SeqNum) + uint64(h.Count)
		}
		if last && end != 0 {
			return first, end, nil
		}
	}
}

// unreadable tells an error of the content of a log from one of the disk.
func unreadable(err error) bool {
	return errors.Is(err, record.ErrUnexpectedEOF) || errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk)
}
