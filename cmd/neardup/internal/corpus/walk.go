package corpus

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pathKey returns the key of a document that is a whole file: its absolute path with slashes. A
// relative path would be the key of another file in another working directory.
func pathKey(name string) string {
	absolute, err := filepath.Abs(filepath.FromSlash(name))
	if err != nil {
		return "" // the working directory does not exist any more
	}
	return filepath.ToSlash(absolute)
}

// found is a file in a folder.
type found struct {
	name string // the path from the folder that was given, with slashes
	path string
	size int64
	skip *Skip // why the file is not read, or nil
}

// walk visits the files in a folder and below it in the order of their names. It does not follow
// links, which may lead out of the folder or form a loop. In the folder of a crawl, it visits only
// the web archives.
func walk(ctx context.Context, folder string, visit func(found) error) error {
	root, err := filepath.EvalSymlinks(folder) // the folder itself may be a link
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	if isDatabase(entries) {
		return fmt.Errorf("%s is an index: \"neardup export\" prints the stored documents", folder)
	}
	name := strings.TrimSuffix(filepath.ToSlash(folder), "/")
	return walkEntries(ctx, found{path: root, name: name}, entries, visit)
}

// walkEntries visits the entries of a folder and the files below them.
func walkEntries(
	ctx context.Context, folder found, entries []fs.DirEntry, visit func(found) error,
) error {
	crawl := isCrawl(func(pattern string) bool {
		names, err := fs.Glob(os.DirFS(folder.path), pattern)
		return err == nil && len(names) > 0
	})
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := found{path: filepath.Join(folder.path, entry.Name()),
			name: folder.name + "/" + entry.Name()}
		mode := entry.Type()
		if entry.IsDir() {
			mode = 0
		}
		f.skip = passOver(entry.Name(), mode)
		switch {
		case f.skip != nil:
		case crawl && (!entry.IsDir() || entry.Name() != "archive"):
			f.skip = notArchive()
		case entry.IsDir():
			below, err := os.ReadDir(f.path)
			switch {
			case err != nil:
				f.skip = cannotOpen(err)
			case isDatabase(below):
				f.skip = &Skip{Reason: "folder of an index", PassedOver: true}
			default:
				if err := walkEntries(ctx, f, below, visit); err != nil {
					return err
				}
				continue
			}
		default:
			info, err := entry.Info()
			if err != nil {
				f.skip = cannotOpen(err)
				break
			}
			f.size = info.Size()
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// isDatabase reports whether the entries of a folder are the files of an index.
func isDatabase(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "marker.manifest.")
	})
}

func cannotOpen(err error) *Skip {
	return &Skip{Reason: "cannot be opened", Detail: err.Error(), Document: true,
		Broken: true, Err: err}
}
