package surgeon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Pebble's logs and MANIFESTs are blocks of 32 KiB, which hold chunks: a checksum (4 B), the length
// of the payload (2 B) and the type (1 B), in a log also the log's number (4 B) and, from type 9 on,
// how far it was known to be synced (8 B), then the payload. All little-endian. The checksum is of
// everything from the type on. Types are whole, first, middle and last of a record, in three kinds.
const logBlockLen = 32 << 10

// chunkHeaders are the lengths of the headers of types 1 to 4, 5 to 8 and 9 to 12.
var chunkHeaders = [...]int{7, 11, 19}

const wholeChunk, firstChunk, lastChunk = 0, 1, 3 // (type - 1) % 4

// firstSeq is the sequence number of the first write to a database.
const firstSeq = 10

// The fields with which an edit of a MANIFEST of Pebble's begins, each a uvarint behind its tag.
const (
	tagComparer       = 1 // a string
	tagFirstLog       = 2
	tagNextFile       = 3
	tagLastSeq        = 4
	tagPrevLog        = 9
	tagCreatedBacking = 105 // two uvarints
	tagRemovedBacking = 106
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const crcMask = 0xa282ead8

// checksum is as Pebble writes it.
func checksum(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + crcMask
}

// logFile is what a log or MANIFEST holds. Pebble's own reader looks for a flipped bit where a chunk is
// wrong, which takes it long.
type logFile struct {
	data   []byte
	number uint64 // of the log; 0: a MANIFEST
}

func readLog(dir, name string, fsys vfs.FS) (logFile, error) {
	data, err := ReadFile(fsys.PathJoin(dir, name), fsys)
	return logFile{data, fileNumber(name, "")}, err
}

// block returns the rest of the block from a place on.
func (l logFile) block(at int) []byte {
	return l.data[at:min(at/logBlockLen*logBlockLen+logBlockLen, len(l.data))]
}

// claimedLen returns how long a chunk would be by its type and length; 0 if there is no such type.
func (l logFile) claimedLen(rest []byte) int {
	if len(rest) < 7 || rest[6] < 1 || rest[6] > 12 || (rest[6] > 4) != (l.number > 0) {
		return 0
	}
	return chunkHeaders[(rest[6]-1)/4] + int(binary.LittleEndian.Uint16(rest[4:]))
}

// chunkLen returns the length of the chunk with which the rest of a block begins; 0 if that is none.
func (l logFile) chunkLen(rest []byte) int {
	n := l.claimedLen(rest)
	if n == 0 || n > len(rest) || checksum(rest[6:n]) != binary.LittleEndian.Uint32(rest) ||
		l.number > 0 && binary.LittleEndian.Uint32(rest[7:]) != uint32(l.number) {
		return 0
	}
	return n
}

// isPadding reports whether there is no room for another chunk in the rest of a block at a place.
func (l logFile) isPadding(rest []byte, at int) bool {
	return len(rest) < chunkHeaders[2] && (at+len(rest))%logBlockLen == 0 && isZero(rest)
}

func isZero(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// isTrailer reports whether nothing but the end is at a place of a log: as Pebble closes one, it writes the
// header of an empty chunk of the log after it.
func (l logFile) isTrailer(at int) bool {
	rest := l.data[at:]
	return len(rest) >= 11 && isZero(rest[:6]) && rest[6] == 5 && binary.LittleEndian.Uint32(rest[7:]) == uint32(l.number)+1 && isZero(rest[11:])
}

// read yields the records up to the first chunk that is none, or until yield returns false. It returns where
// it has come to.
func (l logFile) read(yield func(record []byte) bool) (end int) {
	var record []byte
	for end < len(l.data) {
		rest := l.block(end)
		n := l.chunkLen(rest)
		if n == 0 && l.isPadding(rest, end) {
			end += len(rest)
			continue
		}
		if n == 0 {
			return end
		}
		part := (rest[6] - 1) % 4
		if part == wholeChunk || part == firstChunk {
			record = record[:0]
		}
		record = append(record, rest[chunkHeaders[(rest[6]-1)/4]:n]...)
		end += n
		if (part == wholeChunk || part == lastChunk) && !yield(record) {
			return end
		}
	}
	return end
}

// goesOn reports whether a record begins behind a place.
func (l logFile) goesOn(at int) bool {
	for at++; at < len(l.data); at++ {
		if rest := l.block(at); l.chunkLen(rest) > 0 && (rest[6]-1)%4 <= firstChunk {
			return true
		}
	}
	return false
}

// manifest is what a MANIFEST says of the logs.
type manifest struct {
	name     string
	firstLog uint64 // no log before it is needed
	nextFile uint64 // no file that it knows has this number or a larger one
	lastSeq  uint64 // sequence number that was given out last
}

// currentManifest reads the MANIFEST that is the current one. Each record of it was synced before the next
// one was begun, so it is damaged where one can be read behind one that cannot.
func currentManifest(dir string, fsys vfs.FS) (m manifest, err error) {
	if m.name, err = atomicfs.ReadMarker(fsys, dir, "manifest"); err != nil || m.name == "" {
		return m, err
	}
	l, err := readLog(dir, m.name, fsys)
	if errors.Is(err, fs.ErrNotExist) {
		return m, Damaged(fsys.PathJoin(dir, m.name), "is missing")
	}
	if err != nil {
		return m, err
	}
	end := l.read(func(edit []byte) bool {
		m.apply(edit)
		return true
	})
	if l.goesOn(end) {
		return m, Damaged(fsys.PathJoin(dir, m.name), fmt.Sprintf("cannot be read at byte %d, and what is behind it can", end))
	}
	return m, nil
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
		case tagNextFile:
			m.nextFile = next()
		case tagLastSeq:
			m.lastSeq = max(m.lastSeq, next())
		case tagCreatedBacking:
			next()
			next()
		case tagPrevLog, tagRemovedBacking:
			next()
		default:
			return
		}
	}
}

// neededLogs returns the numbers of the logs that are not yet in tables, the oldest first.
func (m manifest) neededLogs(dir string, fsys vfs.FS) (logs []uint64, err error) {
	names, err := fsys.List(dir)
	for _, name := range names {
		if n := fileNumber(name, ""); n >= max(m.firstLog, 1) && name == logName(n) {
			logs = append(logs, n)
		}
	}
	slices.Sort(logs)
	return logs, err
}

func logName(n uint64) string { return fmt.Sprintf("%06d.log", n) }

// checkLogs sees that no log is missing before the last one there is: every batch in a log has
// the sequence number at which the one before it ended. Only an ingestion takes numbers without
// a word in the log. A Rewrite of the store makes the only ones, with all logs before it in tables,
// and the MANIFEST says up to where.
func checkLogs(dir string, fsys vfs.FS) error {
	m, err := currentManifest(dir, fsys)
	if err != nil || m.name == "" {
		return err
	}
	logs, err := m.neededLogs(dir, fsys)
	if err == nil {
		err = m.checkFirstLog(dir, logs, fsys)
	}
	next := max(m.lastSeq+1, firstSeq)
	for _, n := range logs {
		if err != nil {
			return err
		}
		var l logFile
		l, err = readLog(dir, logName(n), fsys)
		if first, end := l.sequence(); err == nil && end > 0 && first > next {
			err = Damaged(fsys.PathJoin(dir, logName(n)), fmt.Sprintf("begins with write %d, and the log before it, with those from %d on, is missing", first, next))
		} else {
			next = max(next, end)
		}
	}
	return err
}

// checkFirstLog sees that the oldest log that is needed is there. Where tables were written since
// the database was opened, the MANIFEST names it. Before that it is the one that Open began,
// after the MANIFEST and before the OPTIONS file.
func (m manifest) checkFirstLog(dir string, logs []uint64, fsys vfs.FS) error {
	begun := fileNumber(m.name, "MANIFEST-")
	oldest := uint64(math.MaxUint64)
	if len(logs) > 0 {
		oldest = logs[0]
	}
	if m.firstLog > begun {
		if oldest != m.firstLog {
			return Damaged(fsys.PathJoin(dir, logName(m.firstLog)), "is missing")
		}
		return nil
	}
	names, err := fsys.List(dir)
	for _, name := range names {
		if opened := fileNumber(name, "OPTIONS-"); opened > begun && oldest > opened {
			return Damaged(dir, fmt.Sprintf("lacks its first log, which has a number from %d to %d", begun+1, opened-1))
		}
	}
	return err
}

// newerTable returns the name of a table that was made after the MANIFEST was written to last; "" if there is none.
func newerTable(dir string, fsys vfs.FS) (string, error) {
	m, err := currentManifest(dir, fsys)
	if err != nil {
		return "", err
	}
	names, err := fsys.List(dir)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") && fileNumber(name, "") >= m.nextFile {
			return name, err
		}
	}
	return "", err
}

// fileNumber returns the number in the name of a file of Pebble's; 0 if it does not begin so.
func fileNumber(name, prefix string) uint64 {
	digits, _ := strings.CutPrefix(name, prefix)
	digits, _, _ = strings.Cut(digits, ".")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

// sequence returns the first sequence number in a log, and the one behind its last; 0 if it has
// no write.
func (l logFile) sequence() (first, end uint64) {
	l.read(func(record []byte) bool {
		if h, ok := batchrepr.ReadHeader(record); ok {
			if end == 0 {
				first = uint64(h.SeqNum)
			}
			end = uint64(h.SeqNum) + uint64(h.Count)
		}
		return true
	})
	return first, end
}

// batches counts the batches of a log that can be read.
func (l logFile) batches() (n int) {
	l.read(func(record []byte) bool {
		if isBatch(record) {
			n++
		}
		return true
	})
	return n
}

// isBatch reports whether a record has all the entries that it says. Pebble's reader may
// run over the end of what is none.
func isBatch(record []byte) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	header, ok := batchrepr.ReadHeader(record)
	if !ok {
		return false
	}
	count, batch := uint32(0), batchrepr.Read(record)
	for {
		kind, _, _, ok, err := batch.Next()
		if err != nil {
			return false
		}
		if !ok {
			return count == header.Count
		}
		if kind != logDataKind {
			count++
		}
	}
}

// logDataKind is that of an entry which is in the log only.
const logDataKind = 3
