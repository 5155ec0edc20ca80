package index

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/neardup/neardup/internal/store"
)

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(data)
	}
	return files
}

// TestReleasedFormats: each opens for reading without a byte of it being changed, and for
// writing as the newest one, which it then stays. Verify finds nothing in either.
func TestReleasedFormats(t *testing.T) {
	for format := store.FormatOldest; format <= store.Format; format++ {
		dir := filepath.Join(t.TempDir(), "ix")
		if err := os.CopyFS(dir, os.DirFS(fmt.Sprint("../testdata/index-format-", format))); err != nil {
			t.Fatal(err)
		}
		before := readFiles(t, dir)
		for i, c := range []struct {
			opts Options
			want int
		}{{Options{ReadOnly: true}, format}, {Options{MustExist: true}, store.Format}, {Options{ReadOnly: true}, store.Format}} {
			x, err := Open(dir, &c.opts)
			if err != nil {
				t.Fatalf("format %d: %v", format, err)
			}
			if s := x.Stats(); s.Format != c.want || s.Documents != 44 {
				t.Errorf("format %d, opened the %d. time: %+v", format, i+1, s)
			}
			checkVerified(t, x)
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			if i == 0 && !maps.Equal(readFiles(t, dir), before) {
				t.Errorf("format %d was changed by reading it", format)
			}
		}
	}
}

// manifest returns the path of the current MANIFEST.
func manifest(t *testing.T, dir string) string {
	t.Helper()
	markers, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	_, name, _ := strings.Cut(markers[0], "MANIFEST-")
	return filepath.Join(dir, "MANIFEST-"+name)
}

// TestOpenSaysWhatIsWrong: whatever is not an index that this version can open is refused
// by an error with a name.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	released := func(t *testing.T, dir string) {
		if err := os.CopyFS(dir, os.DirFS(fmt.Sprint("../testdata/index-format-", store.Format))); err != nil {
			t.Fatal(err)
		}
	}
	meta := func(name string, value []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			released(t, dir)
			merger := *pebble.DefaultMerger
			merger.Name = "neardup.posting.1" // nothing is merged
			db, err := pebble.Open(dir, &pebble.Options{Merger: &merger, DisableAutomaticCompactions: true, Logger: quiet{}})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Set([]byte("m"+name), value, pebble.Sync), db.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for what, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want error
	}{
		"nothing":           {func(*testing.T, string) {}, fs.ErrNotExist},
		"an empty folder":   {func(t *testing.T, dir string) { os.Mkdir(dir, 0o755) }, fs.ErrNotExist},
		"a file":            {func(t *testing.T, dir string) { os.WriteFile(dir, nil, 0o644) }, ErrNotIndex},
		"a newer format":    {meta("format", []byte("neardup\n\x00\x00\x00\x05")), ErrVersion},
		"half a format":     {meta("format", []byte("neardup\n\x00")), ErrCorrupt},
		"other magic":       {meta("format", []byte("leveldb\n\x00\x00\x00\x03")), ErrNotIndex},
		"half a plan":       {meta("plan", []byte("k=3 0-63/16 16-")), ErrCorrupt},
		"a plan that lies":  {meta("plan", []byte("k=3 0-63/32")), ErrCorrupt},
		"half the counters": {meta("counters", make([]byte, 12)), ErrCorrupt},
		"half of packed":    {meta("packed", make([]byte, 20)), ErrCorrupt},
		"packed of nothing": {meta("packed", make([]byte, 40)), ErrCorrupt},
		"a newer Pebble": {func(t *testing.T, dir string) {
			released(t, dir)
			if err := os.Rename(filepath.Join(dir, "marker.format-version.000011.024"), filepath.Join(dir, "marker.format-version.000012.999")); err != nil {
				t.Fatal(err)
			}
		}, ErrVersion},
		"another's database": {func(t *testing.T, dir string) {
			db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
			if err == nil {
				err = errors.Join(db.Set([]byte("a"), nil, pebble.Sync), db.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, ErrNotIndex},
		"no MANIFEST": {func(t *testing.T, dir string) {
			released(t, dir)
			if err := os.Remove(manifest(t, dir)); err != nil {
				t.Fatal(err)
			}
		}, ErrCorrupt},
		"a wrong byte in the MANIFEST": {func(t *testing.T, dir string) {
			released(t, dir)
			data, err := os.ReadFile(manifest(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			data[40] ^= 0xff
			if err := os.WriteFile(manifest(t, dir), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}, ErrCorrupt},
	} {
		for _, opts := range []Options{{MustExist: true}, {ReadOnly: true}} {
			dir := filepath.Join(t.TempDir(), "ix")
			c.make(t, dir)
			x, err := Open(dir, &opts)
			if !errors.Is(err, c.want) {
				t.Errorf("%s, %+v: %v; want %v", what, opts, err, c.want)
				if err == nil {
					x.Close()
				}
			}
		}
	}
}

// quiet is a logger for Pebble.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, args ...any) {
	panic(fmt.Sprintf(f, args...))
}
