package corpus

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
)

// found is a file below a folder, or what cannot be read there.
type found struct {
	name string // the path as given, with slashes
	path string
	size int64
	skip *Skip // why it is no file to be read
}

// walk visits what is in a folder and below it, each folder sorted by name. Links are not
// followed: one may lead out of the folder, to what its owner did not mean to be read, or
// round in a circle. Names that begin with a dot are passed by.
func walk(ctx context.Context, folder string, visit func(found) error) error {
	root, err := filepath.EvalSymlinks(folder) // one that was named is followed
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		below, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		if below == "." {
			return err
		}
		f := found{path: path, name: strings.TrimSuffix(filepath.ToSlash(folder), "/") + "/" + filepath.ToSlash(below)}
		hidden := strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			f.skip = cannotOpen(err)
		case entry.IsDir() && !hidden:
			return nil
		case hidden:
			f.skip = &Skip{Reason: "hidden file"}
		case entry.Type() == fs.ModeSymlink:
			f.skip = &Skip{Reason: "link", Document: true, Detail: "links in a folder are not followed: name the link itself as an input"}
		case !entry.Type().IsRegular():
			f.skip = &Skip{Reason: "not a regular file", Detail: entry.Type().String()}
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
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

func cannotOpen(err error) *Skip {
	return &Skip{Reason: "cannot be opened", Detail: err.Error(), Document: true, Broken: true, Err: err}
}
