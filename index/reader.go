package index

import (
	"errors"

	"github.com/neardup/neardup/internal/store"
)

// reader answers of one moment. What is packed never changes while the index is open,
// so a reader takes a view of the store only when something live may bear on its
// answer. It is not safe for concurrent use.
type reader struct {
	x      *Index
	v      *store.View // nil until it is needed
	nextID uint64      // documents before it have all that belongs to them in v
	flips  []uint64
	probes []liveProbe
	near   []uint64 // live fingerprints within the distance, where they are known without probes
	fps    []uint64

	current search
}

// liveProbe is a prefix of a table that live entries may have.
type liveProbe struct {
	table int
	flips uint64
}

// reader returns one of this moment or a later one. close must follow.
func (x *Index) reader() *reader {
	if r, ok := x.readers.Get().(*reader); ok {
		return r
	}
	return &reader{x: x}
}

// take opens the reader's view.
func (r *reader) take() (err error) {
	r.nextID = r.x.nextID.Load()
	if r.x.aroundView != nil {
		r.x.aroundView()
	}
	r.v, err = r.x.store.View()
	if r.x.aroundView != nil {
		r.x.aroundView()
	}
	return err
}

func (r *reader) close() error {
	var err error
	if r.v != nil {
		err = r.v.Close()
		r.v = nil
	}
	r.current.ctx = nil
	r.x.readers.Put(r)
	return err
}

// withReader runs f on a reader of this moment.
func (x *Index) withReader(f func(*reader) error) error {
	r := x.reader()
	return errors.Join(f(r), r.close())
}

// sameReaders returns n readers of one moment.
func (x *Index) sameReaders(n int) ([]*reader, error) {
	first := x.reader()
	readers := []*reader{first}
	if err := first.take(); err != nil {
		return nil, errors.Join(err, closeAll(readers))
	}
	for len(readers) < n {
		r := x.reader()
		readers = append(readers, r)
		var err error
		if r.v, err = first.v.Clone(); err != nil {
			return nil, errors.Join(err, closeAll(readers))
		}
		r.nextID = first.nextID
	}
	return readers, nil
}

func closeAll(readers []*reader) error {
	var errs []error
	for _, r := range readers {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
