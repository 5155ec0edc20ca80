package selfjoin

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// scratch is a folder of temporary files. Several goroutines may use it.
type scratch struct {
	dir string

	mu   sync.Mutex
	open map[*os.File]bool
}

func newScratch(parent string) (*scratch, error) {
	dir, err := os.MkdirTemp(parent, "neardup-selfjoin-")
	if err != nil {
		return nil, fmt.Errorf("selfjoin: folder for temporary files: %w", err)
	}
	return &scratch{dir: dir, open: make(map[*os.File]bool)}, nil
}

func (s *scratch) create() (*os.File, error) {
	file, err := os.CreateTemp(s.dir, "records-")
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[file] = true
	}
	return file, err
}

func (s *scratch) remove(file *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, file)
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// close removes the folder with all that is left in it.
func (s *scratch) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for file := range s.open {
		errs = append(errs, file.Close())
	}
	return errors.Join(errors.Join(errs...), os.RemoveAll(s.dir))
}
