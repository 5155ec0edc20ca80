package corpus

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// entry is a file below a folder, or a reason why something there is none.
type entry struct {
	name string // path as given, with slashes
	path string
	size int64
	skip *Skip
}

// disk is how files are found and opened; tests have it fail.
type disk struct {
	open    func(path string) (*os.File, error)
	readDir func(path string) ([]fs.DirEntry, error)
}

var realDisk = disk{open: os.Open, readDir: os.ReadDir}

// walk gives what is in a folder and below it, each folder sorted by name.
// Links are not followed: one may lead out of the folder, to what its owner did
// not mean to be read, or round in a circle. Names that begin with a dot are
// passed by.
func (d disk) walk(ctx context.Context, folder string) iter.Seq[entry] {
	return func(yield func(entry) bool) { d.walkFolder(ctx, folder, yield) }
}

func (d disk) walkFolder(ctx context.Context, folder string, yield func(entry) bool) bool {
	children, err := d.readDir(folder)
	if err != nil {
		return yield(entry{name: filepath.ToSlash(folder), path: folder, skip: cannotOpen(err)})
	}
	for _, child := range children {
		if ctx.Err() != nil {
			return false
		}
		path := strings.TrimSuffix(folder, string(filepath.Separator)) + string(filepath.Separator) + child.Name()
		if child.IsDir() && !isHidden(child) {
			if !d.walkFolder(ctx, path, yield) {
				return false
			}
		} else if !yield(examine(child, path)) {
			return false
		}
	}
	return true
}

func isHidden(child fs.DirEntry) bool { return strings.HasPrefix(child.Name(), ".") }

func examine(child fs.DirEntry, path string) entry {
	e := entry{name: filepath.ToSlash(path), path: path}
	if isHidden(child) {
		e.skip = &Skip{Reason: "hidden file"}
		return e
	}
	info, err := child.Info()
	switch {
	case err != nil:
		e.skip = cannotOpen(err)
	case info.Mode().Type() == fs.ModeSymlink:
		e.skip = &Skip{Reason: "link", Document: true, Detail: "links in a folder are not followed: name the link itself as an input"}
	case !info.Mode().IsRegular():
		e.skip = &Skip{Reason: "not a regular file", Detail: info.Mode().Type().String()}
	default:
		e.size = info.Size()
	}
	return e
}

func cannotOpen(err error) *Skip {
	return &Skip{Reason: "cannot be opened", Detail: err.Error(), Document: true, Broken: true, Err: err}
}
