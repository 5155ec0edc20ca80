package compaction

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report describes the work of Run, Compact or Load. Bytes are bytes on disk, including the
// write-ahead log.
type Report struct {
	Documents uint64 `json:"documents"`
	Loaded    uint64 `json:"loaded,omitempty"` // documents that Load has read
	// documents of the index and of the load that a later document with the same key replaced
	Replaced    uint64  `json:"replaced,omitempty"`
	BytesBefore uint64  `json:"bytesBefore"`
	BytesAfter  uint64  `json:"bytesAfter"`
	Plan        string  `json:"plan"`
	Seconds     float64 `json:"seconds"`
}

// size returns the size of the files of a closed index. An open one may have files that are about
// to be deleted.
func size(dir string, fsys vfs.FS) (bytes uint64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := fsys.Stat(fsys.PathJoin(dir, name))
		if err != nil {
			return 0, err
		}
		bytes += uint64(info.Size())
	}
	return bytes, nil
}

func (r *Report) timed(start time.Time) { r.Seconds = time.Since(start).Seconds() }
