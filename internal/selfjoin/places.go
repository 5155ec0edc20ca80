package selfjoin

import (
	"runtime"
	"sync"
)

// Places tells where in a collection the copies of each node are.
type Places struct {
	order  []uint32
	starts []uint32 // where those of each node start in order
}

// Places looks up every fingerprint of the collection that the set was made of, in its
// own order (NewSet sorts the slice: keep a copy). It takes 12 bytes a fingerprint, 4 of
// them only while it works.
func (s *Set) Places(fps []fp) *Places {
	nodes := make([]Node, len(fps))
	workers := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			for place, end := share(len(fps), i, workers); place < end; place++ {
				nodes[place], _ = s.Node(fps[place])
			}
		})
	}
	group.Wait()
	p := &Places{order: make([]uint32, len(fps)), starts: make([]uint32, len(s.fps)+2)}
	next := p.starts[1:] // of each node; filling makes it where the following one starts
	for _, node := range nodes {
		next[node+1]++
	}
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	for place, node := range nodes {
		p.order[next[node]] = uint32(place)
		next[node]++
	}
	return p
}

// Of returns the places of a node, ascending.
func (p *Places) Of(node Node) []uint32 {
	return p.order[p.starts[node]:p.starts[node+1]:p.starts[node+1]]
}
