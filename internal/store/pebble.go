package store

import "github.com/cockroachdb/pebble/v2"

// What is in this file holds for Pebble of this version, and nothing that it promises says so. With
// another version each has to be looked at again; beside it
//
//   - failStop: the first thing that Open does when it fails behind a flush is to close its directory;
//     what a read of an excised table cannot have is taken for nothing; a failed write to a vital file
//     ends the process;
//   - lateScheduler: Open registers before it waits for a flush, and does not unregister where it fails;
//   - checkFirstLog: the numbers that Open gives to MANIFEST, log and OPTIONS file ascend;
//   - postingMerger: DeletableValueMerger (cockroachdb/pebble#6168).
const pebbleVersion = "v2.1.7"

// statisticsCaller is who tells, in the background, of a table whose statistics cannot be read.
const statisticsCaller = ".collectTableStats"

// sizeMismatch is how Open says that a table is not as long as its MANIFEST says.
const sizeMismatch = "object size mismatch"

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

// Pebble's logs and MANIFESTs are blocks of 32 KiB, which hold chunks: a checksum (4 B), the length
// of the payload (2 B) and the type (1 B), in a log also the log's number (4 B) and, from type 9 on,
// how far it was known to be synced (8 B), then the payload. All little-endian. The checksum is of
// everything from the type on.
const logBlockLen = 32 << 10

// chunkHeaders are the lengths of the headers of types 1 to 4, 5 to 8 and 9 to 12.
var chunkHeaders = [...]int{7, 11, 19}

// cleaner deletes the files that are of no use any more, logs too. Pebble keeps up to four of them to
// write over, unless its cleaner needs what a file holds, as the one that archives does.
type cleaner struct {
	pebble.DeleteCleaner
	keepsNoLogs
}

type keepsNoLogs struct{ pebble.ArchiveCleaner } // deeper than DeleteCleaner, whose methods count
