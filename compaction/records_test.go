package compaction

import (
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/neardup/neardup/internal/testing/testenv"
	"github.com/neardup/neardup/store"
)

// TestTruncatedRecordFile reads a file of records that lost its end, also after a whole record.
func TestTruncatedRecordFile(t *testing.T) {
	const records = 3
	whole := recordHeader + len((&store.Record{Key: "key"}).Append(nil))
	for size := 0; size <= records*whole; size++ {
		fsys := vfs.NewMem()
		f := recordFile{path: "records", fs: fsys}
		for id := range uint64(records) {
			testenv.Must(t, f.add(id+1, store.Record{Key: "key"}))
		}
		testenv.Must(t, f.writer.Flush())
		in, err := fsys.Open("records")
		testenv.Must(t, err)
		data, err := io.ReadAll(in)
		testenv.Must(t, err, in.Close())
		out, err := fsys.Create("records", vfs.WriteCategoryUnspecified)
		testenv.Must(t, err)
		_, err = out.Write(data[:min(size, len(data))])
		testenv.Must(t, err, out.Close())
		read := 0
		err = f.each(t.Context(), func(uint64, store.Record) error { read++; return nil })
		if read != size/whole || (err == nil) != (read == records) {
			t.Errorf("%d of %d bytes: %d records, error %v", size, len(data), read, err)
		}
	}
}
