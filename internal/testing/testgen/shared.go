package testgen

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Shared returns the path of a file of real documents in ../shared/data, next to the repository.
// If the file does not exist, it skips the test.
func Shared(t testing.TB, name string) string {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for filepath.Dir(root) != root {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Dir(root)
	}
	path := filepath.Join(root, "..", "shared", "data", filepath.FromSlash(name))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("skipped: the folder ../shared/data of real documents is missing")
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}
