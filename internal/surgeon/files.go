package surgeon

import (
	"errors"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadFile returns what is in a file.
func ReadFile(path string, fsys vfs.FS) ([]byte, error) {
	f, err := fsys.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// replaceFile puts a file with this content in the place of one, durably and in one step.
func replaceFile(dir, name string, content []byte, fsys vfs.FS) error {
	path := fsys.PathJoin(dir, name)
	err := writeFile(path+".new", content, true, fsys)
	if err == nil {
		err = fsys.Rename(path+".new", path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(path+".new"))
	}
	return SyncDir(dir, fsys)
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string, fsys vfs.FS) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeFile(path string, content []byte, sync bool, fsys vfs.FS) error {
	f, err := fsys.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// CopyFiles makes a folder of what is in another, of tables by links. other does so for some files, or
// leaves them out.
func CopyFiles(from, to string, fsys vfs.FS, other func(name, target string) (done bool, err error)) error {
	if err := fsys.MkdirAll(to, 0o755); err != nil {
		return err
	}
	names, err := fsys.List(from)
	for _, name := range names {
		source, target := fsys.PathJoin(from, name), fsys.PathJoin(to, name)
		done, err := other(name, target)
		switch {
		case done || err != nil:
		case strings.HasSuffix(name, ".sst"):
			err = vfs.LinkOrCopy(fsys, source, target)
		default:
			err = vfs.Copy(fsys, source, target)
		}
		if err != nil {
			return err
		}
	}
	return err
}
