package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// runner runs commands. Commands on one key run in their order. If durable is true, everything that
// the commands wrote and read survives a failover after the runner returns. Replies are valid only
// if the error is nil.
type runner func(ctx context.Context, durable bool, commands []*command) error

// command is one step of the protocol on one key. Every command is idempotent: if its reply was
// lost, it can be repeated.
type command struct {
	verb verb
	key  string
	args []any

	value string // the value of the key after the command; "" if the key does not exist
	err   error
}

func newCommand(v verb, key string, args ...any) *command {
	return &command{verb: v, key: key, args: args}
}

// verb is the operation of a command.
type verb int

const (
	// get reads the value.
	get verb = iota
	// say appends its argument, and then reads the value.
	say
	// amend replaces its first argument, if the value begins with it, by its second argument, and
	// then appends its third argument. It can write even if maxmemory is used up.
	amend
	// reserve reserves the given number of sequence numbers. Its value is the last of them.
	reserve
	// create writes the value if the key does not exist, and then reads the value.
	create
	// barrier always writes, so that WAIT covers commands that write nothing themselves.
	barrier
)

// scripts are Lua scripts for Redis 5 and later. If maxmemory is used up, a script may write if its
// first write command needs no memory. PERSIST is such a command and has no effect here. DEL is not
// used, since a deleted key cannot be created again while its slot moves.
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

// queue adds a command to a pipeline, and returns its replies. The last reply is the value.
func (c *command) queue(
	ctx context.Context, pipe goredis.Pipeliner, asking bool,
) (replies []*goredis.Cmd) {
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

// take sets the value and the error of the command from its replies.
func (c *command) take(replies []*goredis.Cmd) {
	for _, reply := range replies {
		if c.err = reply.Err(); c.err != nil && !errors.Is(c.err, goredis.Nil) {
			return
		}
	}
	c.err = nil
	c.value, _ = replies[len(replies)-1].Text()
}
