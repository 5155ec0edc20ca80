package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// runner does commands, those of one key in their order. With durable, what they wrote and
// what they read outlives a failover when it returns. A reply counts only without an error.
type runner func(ctx context.Context, durable bool, commands []*command) error

// command is one step of the protocol on one key. Each may be repeated: a command that was done, and whose
// reply was lost, can be done again without harm.
type command struct {
	verb verb
	key  string
	args []any

	value string // of the key when the command was done; "" where there is nothing
	err   error
}

func newCommand(v verb, key string, args ...any) *command {
	return &command{verb: v, key: key, args: args}
}

// verb is what a command does.
type verb int

const (
	// get reads.
	get verb = iota
	// say appends its argument, and then reads.
	say
	// amend puts its second argument in the place of its first, if the value begins with that, and then its
	// third at the end. It may write where memory is used up.
	amend
	// reserve gives out sequence numbers: how many. Its value is the last of them.
	reserve
	// create writes what is missing, and then reads.
	create
	// barrier writes always, so that there is something to wait for: what is read and what makes room outlives a failover, too.
	barrier
)

// scripts are Lua of Redis 5 and later. Where memory is used up a script may write if its first write is of a kind that takes
// no memory: PERSIST is, and does nothing. Not DEL: while a slot moves, a key that is gone cannot be made again.
var scripts = map[verb]string{
	amend: `
local value = redis.call('GET', KEYS[1]) or ''
if string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return value end
value = ARGV[2] .. string.sub(value, #ARGV[1] + 1) .. ARGV[3]
redis.call('PERSIST', KEYS[1])
if value == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], value) end
return value`,
	// A number is at least the time since the epoch of IDs in ticks of 10 us.
	reserve: `
local time = redis.call('TIME')
local last = (tonumber(time[1]) - 1704067200) * 100000 + math.floor(tonumber(time[2]) / 10)
last = math.max(last, tonumber(redis.call('GET', KEYS[1]) or '0')) + tonumber(ARGV[1])
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], string.format('%.0f', last))
return string.format('%.0f', last)`,
	barrier: `
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], '', 'EX', 1)
return ''`,
}

// queue puts a command into a pipeline, and returns its replies, of which the last is the value.
func (c *command) queue(ctx context.Context, pipe goredis.Pipeliner, asking bool) (replies []*goredis.Cmd) {
	do := func(args ...any) {
		if asking {
			pipe.Do(ctx, "ASKING")
		}
		replies = append(replies, pipe.Do(ctx, args...))
	}
	switch c.verb {
	case amend, reserve, barrier:
		do(append([]any{"EVAL", scripts[c.verb], 1, c.key}, c.args...)...)
		return replies
	case say:
		do("APPEND", c.key, c.args[0])
	case create:
		do("SETNX", c.key, c.args[0])
	}
	do("GET", c.key)
	return replies
}

// take keeps what was replied.
func (c *command) take(replies []*goredis.Cmd) {
	for _, reply := range replies {
		if c.err = reply.Err(); c.err != nil && !errors.Is(c.err, goredis.Nil) {
			return
		}
	}
	c.err = nil
	c.value, _ = replies[len(replies)-1].Text()
}
