package store

import "context"

// Compact rewrites the whole database: it merges postings, drops what was deleted
// or replaced, and leaves every key on Pebble's lowest level. It needs up to as much
// free disk as the database takes. When ctx ends it, nothing is lost.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.writable(); err != nil {
		return err
	}
	return classify(s.db.Compact(ctx, []byte{0}, []byte{0xff}, true))
}
