package index

import (
	"context"

	"github.com/neardup/neardup/fingerprint"
	"github.com/neardup/neardup/internal/selfjoin"
)

// fewMembers: up to here all are compared with all.
const fewMembers = 64

// eachNear calls f with the places of members that may match, at least all that do.
func (j *join) eachNear(ctx context.Context, members []Group, f func(a, b int) error) error {
	if len(members) <= fewMembers {
		for b := range members {
			for a := range b {
				if err := f(a, b); err != nil {
					return err
				}
			}
		}
		return nil
	}
	at := make(map[uint64][]int, len(members))
	fps := make([]fingerprint.Fingerprint, len(members))
	for i := range members {
		stored := members[i].stored()
		fps[i] = fingerprint.Fingerprint(stored)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, k := range at[stored] {
			if err := f(k, i); err != nil {
				return err
			}
		}
		at[stored] = append(at[stored], i)
	}
	set, err := selfjoin.NewSet(fps)
	if err != nil {
		return err
	}
	return set.Each(ctx, selfjoin.Options{MaxDistance: j.k, Workers: 1}, func(_ int, pairs []selfjoin.Pair) error {
		for _, p := range pairs {
			for _, a := range at[uint64(p.First)] {
				for _, b := range at[uint64(p.Second)] {
					if err := f(a, b); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}
