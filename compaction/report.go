package compaction

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/store"
)

// Report describes what Run, Compact or Load did.
type Report struct {
	Documents   uint64        `json:"documents"`
	Loaded      uint64        `json:"loaded,omitempty"`   // documents that Load has read
	Replaced    uint64        `json:"replaced,omitempty"` // documents, of the index and of the load, that a later one with the same key replaced
	BytesBefore uint64        `json:"bytesBefore"`        // on disk, including the write-ahead log
	BytesAfter  uint64        `json:"bytesAfter"`
	Plan        string        `json:"plan"`
	Tables      []TableReport `json:"tables"` // of the new plan
	Seconds     float64       `json:"seconds"`
}

// TableReport describes a table before and after the work. Entries are different fingerprints;
// EntriesBefore includes the fingerprints of removed documents. Bytes are bytes on disk, without
// the filter.
type TableReport struct {
	EntriesBefore uint64 `json:"entriesBefore"`
	EntriesAfter  uint64 `json:"entriesAfter"`
	BytesBefore   uint64 `json:"bytesBefore"`
	BytesAfter    uint64 `json:"bytesAfter"`
	FilterBytes   uint64 `json:"filterBytes"` // on disk and in memory
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

// measureBefore sets the figures of the tables before the work that can be determined without
// reading them.
func (r *Report) measureBefore(s *store.Store, tables int) (err error) {
	r.Tables = make([]TableReport, tables)
	for i := range r.Tables {
		r.Tables[i].EntriesBefore = s.Now().PackedEntries()
		if r.Tables[i].BytesBefore, err = s.TableBytes(i); err != nil {
			return err
		}
	}
	return nil
}

// complete opens the index in dir and adds the figures after the work.
func (r *Report) complete(dir string, opts *Options) error {
	s, err := openStore(dir, opts)
	if err != nil {
		return err
	}
	return r.closed(s, dir, opts)
}

// closed adds the figures of the index and closes it.
func (r *Report) closed(s *store.Store, dir string, opts *Options) (err error) {
	r.Documents, r.Plan = s.Counters().Documents, s.Header().Plan
	if r.Tables == nil { // there was nothing to pack
		err = r.measureBefore(s, len(s.Meta().Packed))
	}
	for i, info := range s.Meta().Packed {
		t := &r.Tables[i]
		t.EntriesAfter = info.Entries
		if err == nil {
			t.BytesAfter, err = s.TableBytes(i)
		}
		if err == nil {
			t.FilterBytes, err = s.FilterBytes(i)
		}
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	r.BytesAfter, err = size(dir, opts.fs())
	return err
}

func (r *Report) timed(start time.Time) { r.Seconds = time.Since(start).Seconds() }
