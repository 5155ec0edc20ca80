package selfjoin

// tempFile is fingerprints in a temporary file.
type tempFile struct {
	*recordFile[[1]uint64]
	distinct bool // none is there twice
	or, and  fp
}

func (e *external) tempFile() (*tempFile, error) {
	file, err := newRecordFile[[1]uint64](e.scratch)
	return &tempFile{recordFile: file, and: ^fp(0)}, err
}

// differing returns the bits in which they differ.
func (s *tempFile) differing() fp { return s.or &^ s.and }

func (s *tempFile) add(fps []fp) error {
	for _, f := range fps {
		s.or |= f
		s.and &= f
		if err := s.recordFile.add([1]uint64{uint64(f)}); err != nil {
			return err
		}
	}
	return nil
}
