package index

import (
	"sync"
	"sync/atomic"
)

// calls counts the calls under way, so that Close can wait for them. A call may begin
// others, also while Close waits.
type calls struct {
	state atomic.Int64 // how many; with closing, once Close was called
	over  chan struct{}
	once  sync.Once
}

const closing = 1 << 62

func newCalls() *calls { return &calls{over: make(chan struct{})} }

// begin starts a call unless the index is closed; end must follow.
func (c *calls) begin() bool {
	if c.state.Add(1)&closing == 0 {
		return true
	}
	c.end()
	return false
}

func (c *calls) end() {
	if c.state.Add(-1) == closing {
		c.once.Do(func() { close(c.over) })
	}
}

// close lets no more calls begin and waits for those under way. It reports false if
// it was called before.
func (c *calls) close() bool {
	if c.state.Or(closing)&closing != 0 {
		return false
	}
	c.begin() // the last to end closes over
	<-c.over
	return true
}
