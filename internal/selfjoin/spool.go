package selfjoin

// spool is fingerprints in a temporary file.
type spool struct {
	*recordFile[[1]uint64]
	distinct bool // none is there twice
	or, and  fp
}

func (e *external) spool() (*spool, error) {
	file, err := newRecordFile[[1]uint64](e.scratch)
	return &spool{recordFile: file, and: ^fp(0)}, err
}

// differing returns the bits in which they differ.
func (s *spool) differing() fp { return s.or &^ s.and }

func (s *spool) add(fps []fp) error {
	for _, f := range fps {
		s.or |= f
		s.and &= f
		if err := s.recordFile.add([1]uint64{uint64(f)}); err != nil {
			return err
		}
	}
	return nil
}
