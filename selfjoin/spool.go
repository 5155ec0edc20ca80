package selfjoin

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// spool is fingerprints in a temporary file.
type spool struct {
	file     *os.File
	out      *bufio.Writer
	len      int64
	distinct bool // none is there twice
	or, and  fp
}

func (e *external) spool() (*spool, error) {
	file, err := os.CreateTemp(e.dir, "fingerprints-")
	if err != nil {
		return nil, err
	}
	return &spool{file: file, out: bufio.NewWriterSize(file, 256<<10), and: ^fp(0)}, nil
}

// differing returns the bits in which they differ.
func (s *spool) differing() fp { return s.or &^ s.and }

func (s *spool) add(fps []fp) error {
	var word [8]byte
	for _, f := range fps {
		s.or |= f
		s.and &= f
		binary.LittleEndian.PutUint64(word[:], uint64(f))
		if _, err := s.out.Write(word[:]); err != nil {
			return err
		}
	}
	s.len += int64(len(fps))
	return nil
}

// finish makes what was added ready to be read.
func (s *spool) finish() error {
	err := s.out.Flush()
	s.out = nil
	return err
}

// read yields all fingerprints, some thousands at a time.
func (s *spool) read() iter.Seq2[[]fp, error] {
	return func(yield func([]fp, error) bool) {
		in := io.NewSectionReader(s.file, 0, s.len*8)
		buffer, fps := make([]byte, 64<<10), make([]fp, 0, 8<<10)
		for {
			n, err := io.ReadFull(in, buffer)
			if err == io.EOF {
				return
			}
			if err != nil && err != io.ErrUnexpectedEOF || n%8 != 0 {
				yield(nil, fmt.Errorf("%s: %d bytes read: %w", s.file.Name(), n, err))
				return
			}
			fps = fps[:0]
			for b := buffer[:n]; len(b) > 0; b = b[8:] {
				fps = append(fps, fp(binary.LittleEndian.Uint64(b)))
			}
			if !yield(fps, nil) {
				return
			}
		}
	}
}

func (s *spool) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
