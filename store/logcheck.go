package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// damage is a place in a log or MANIFEST where what was written once cannot be read.
type damage struct {
	at    int64 // of the chunk in the file
	what  string
	fixed bool  // one byte is wrong, and what it should be is known
	byte  int64 // where that is
	want  byte
}

// checkLogs reads the logs and the MANIFEST as strictly as can be. Pebble takes the first
// chunk that it cannot read for the end of the file, which a crash may have left in the
// midst of a write, unless one in a later block of 32 KiB tells that this one had been
// synced. So a byte that rots near the end of a log would take acknowledged writes away
// in silence, and one in a MANIFEST whole tables.
//
// What cannot be read is damage, and no end, where one of these is found behind it:
// a chunk that tells that it was synced, in a MANIFEST any chunk; the mark of a log that
// was closed; or that changing one byte makes it a chunk. The rest, more bytes than one
// in what was synced last before a crash, looks like a write that the crash cut off.
func checkLogs(dir string, fsys vfs.FS) error {
	names, err := logNames(dir, fsys)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := fsys.PathJoin(dir, name)
		d, err := checkLog(path, name, fsys)
		if err != nil {
			return err
		}
		if d != nil {
			return fmt.Errorf("%w: %s, chunk at byte %d: %s", ErrCorrupt, path, d.at, d.what)
		}
	}
	return nil
}

// logNames returns the logs, and the MANIFEST that is the current one.
func logNames(dir string, fsys vfs.FS) ([]string, error) {
	files, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range files {
		if _, isLog := logNumber(name); isLog {
			names = append(names, name)
		}
	}
	manifest, err := atomicfs.ReadMarker(fsys, dir, "manifest")
	if err == nil && manifest != "" {
		names = append(names, manifest)
	}
	return names, err
}

func logNumber(name string) (uint64, bool) {
	digits, isLog := strings.CutSuffix(name, ".log")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, isLog && err == nil
}

// checkLog returns the first damage in a log or MANIFEST; nil if there is none.
func checkLog(path, name string, fsys vfs.FS) (*damage, error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return damageIn(f, name)
}

// damageIn returns the first damage in what a log or MANIFEST of this name holds.
func damageIn(f io.ReaderAt, name string) (first *damage, err error) {
	formats := formatsOf(name)
	start := make([]byte, logBlockLen)
	n, err := f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	for _, format := range formats {
		if format.at(start[:n]) > 0 || format.isEnd(start[:n]) {
			formats = []chunkFormat{format}
		}
	}
	for _, format := range formats {
		d, err := findDamage(io.NewSectionReader(f, 0, math.MaxInt64), format)
		if err != nil {
			return nil, err
		}
		if first == nil || d != nil && d.fixed {
			first = d
		}
	}
	return first, nil
}

func formatsOf(name string) []chunkFormat {
	if number, isLog := logNumber(name); isLog {
		return []chunkFormat{logFormat(number), firstLogFormat(number)}
	}
	return []chunkFormat{manifestFormat()}
}

// findDamage walks through the chunks of a file.
func findDamage(r io.Reader, format chunkFormat) (*damage, error) {
	var buffer [logBlockLen]byte
	var record []byte // of which the last chunks are still to come
	for offset := int64(0); ; offset += logBlockLen {
		n, err := readBlock(r, buffer[:])
		if n == 0 || err != nil {
			return nil, err
		}
		block := buffer[:n]
		for at := 0; at < n; {
			rest := block[at:]
			if length := format.at(rest); length > 0 {
				record = format.follow(record, rest[:length])
				at += length
				continue
			}
			if format.isEnd(rest) {
				return nil, nil
			}
			if len(rest) < format.header && n == logBlockLen && allZero(rest) {
				break
			}
			return format.judge(r, block, at, offset, record)
		}
	}
}

// readBlock returns 0 at the end.
func readBlock(r io.Reader, block []byte) (int, error) {
	n, err := io.ReadFull(r, block)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

// maxFollowed bounds the records that are looked into.
const maxFollowed = 64 << 20

// follow adds the payload of a chunk to those before it in its record.
func (f chunkFormat) follow(record, chunk []byte) []byte {
	switch part := chunk[6] - f.firstType; {
	case !f.isLog() || part == chunkWhole || part == chunkLast || len(record) > maxFollowed:
		return record[:0]
	case part == chunkFirst:
		record = record[:0]
	}
	return append(record, chunk[f.header:]...)
}

func allZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// judge tells whether what is no chunk, in a block at a place, is damage or the end of
// what was written. r has what follows the block, which is at an offset; record is what
// came before of the same record.
func (f chunkFormat) judge(r io.Reader, block []byte, at int, offset int64, record []byte) (*damage, error) {
	var buffer [logBlockLen]byte
	n, err := readBlock(r, buffer[:])
	if err != nil {
		return nil, err
	}
	d := &damage{at: offset + int64(at)}
	rest := block[at:]
	if where, want, found := f.wrongByte(rest); found && f.plausible(rest, where, want, record, buffer[:n]) {
		d.fixed, d.byte, d.want = true, d.at+int64(where), want
		d.what = fmt.Sprintf("byte %d is %#02x, and was %#02x", d.byte, rest[where], want)
		return d, nil
	}
	d.what = "it cannot be read, and what is behind it can"
	if !f.isPadding(rest) && f.evidence(rest[1:], uint64(d.at)) {
		return d, nil
	}
	for ; n > 0 && err == nil; n, err = readBlock(r, buffer[:]) {
		if f.evidence(buffer[:n], uint64(d.at)) {
			return d, nil
		}
	}
	return nil, err
}

// isPadding reports whether there is no room for a chunk before the end of the block.
func (f chunkFormat) isPadding(rest []byte) bool { return len(rest) < f.header }

// evidence looks for something which shows that everything up to a place was written.
func (f chunkFormat) evidence(data []byte, place uint64) bool {
	for i := 0; i+7 <= len(data); i++ {
		if f.knows(data[i+6]) {
			if n := f.at(data[i:]); n > 0 && f.shows(data[i:], place) {
				return true
			}
		}
		if f.isEnd(data[i:]) && allZero(data[i+logEndLen:]) {
			return true
		}
	}
	return false
}

// plausible reports whether a chunk of a log, with a byte of it changed, is what was
// written. A write that was cut off may have the right checksum with one byte changed by
// chance. Then what it makes is no batch, or the record does not go on in the next block.
func (f chunkFormat) plausible(rest []byte, at int, want byte, record, next []byte) bool {
	fixed := append([]byte(nil), rest...)
	fixed[at] = want
	n := f.at(fixed)
	if n == 0 || !f.isLog() {
		return n > 0
	}
	if n-at >= tornZeros && allZero(rest[at:n]) {
		return false // as where the end of a write is missing
	}
	payload := fixed[f.header:n]
	switch fixed[6] - f.firstType {
	case chunkWhole:
		return isBatch(payload)
	case chunkLast:
		return len(record) == 0 || len(record) > maxFollowed || isBatch(append(record, payload...))
	}
	return f.at(next) > 0
}

// tornZeros is how many zeros there are no more at the end of a chunk that was written
// whole: the last entry of a commit of ours is that of the counters.
const tornZeros = 64

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
