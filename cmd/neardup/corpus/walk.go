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

// walk gives what is in a folder and below it, each folder sorted by name.
// Links to files are followed, links to folders are not, so there is no way
// round in a circle. Names that begin with a dot are passed by.
func walk(ctx context.Context, folder string) iter.Seq[entry] {
	return func(yield func(entry) bool) { walkFolder(ctx, folder, yield) }
}

func walkFolder(ctx context.Context, folder string, yield func(entry) bool) bool {
	children, err := os.ReadDir(folder)
	if err != nil {
		return yield(entry{name: filepath.ToSlash(folder), path: folder, skip: cannotOpen(err)})
	}
	for _, child := range children {
		if ctx.Err() != nil {
			return false
		}
		path := strings.TrimSuffix(folder, string(filepath.Separator)) + string(filepath.Separator) + child.Name()
		if child.IsDir() && !isHidden(child) {
			if !walkFolder(ctx, path, yield) {
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
	info, err := os.Stat(path)
	switch {
	case err != nil:
		e.skip = cannotOpen(err)
	case info.IsDir():
		e.skip = &Skip{Reason: "link to a folder", Document: true, Detail: "links to folders are not followed: name the folder itself"}
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
