package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// command is one step of the protocol on one key. Each may be repeated: a command that was done, and whose
// reply was lost, can be done again without harm.
type command struct {
	verb verb
	key  string
	args []any

	value string // of the key when the command was done; "" where there is nothing
	err   error
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
)

// scripts are Lua of Redis 5 and later. Where memory is used up a script may write if its first write is of a kind that takes
// no memory: PERSIST is, and does nothing. Not DEL: while a slot moves, a key that is gone cannot be made again.
var scripts = map[verb]script{
	amend: newScript(`
local value = redis.call('GET', KEYS[1]) or ''
if string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then return value end
value = ARGV[2] .. string.sub(value, #ARGV[1] + 1) .. ARGV[3]
redis.call('PERSIST', KEYS[1])
if value == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], value) end
return value`),
	// A number is at least the time since the epoch of IDs in ticks of 10 us.
	reserve: newScript(`
local time = redis.call('TIME')
local last = (tonumber(time[1]) - 1704067200) * 100000 + math.floor(tonumber(time[2]) / 10)
last = math.max(last, tonumber(redis.call('GET', KEYS[1]) or '0')) + tonumber(ARGV[1])
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], string.format('%.0f', last))
return string.format('%.0f', last)`),
}

// script is Lua with the hash by which Redis knows it.
type script struct{ source, hash string }

func newScript(source string) script { return script{source, goredis.NewScript(source).Hash()} }

// queue puts a command into a pipeline. A script goes by its hash, or whole.
func (c *command) queue(ctx context.Context, pipe goredis.Pipeliner, asking, whole bool) (written goredis.Cmder, read *goredis.StringCmd) {
	ask := func() {
		if asking {
			pipe.Do(ctx, "ASKING")
		}
	}
	ask()
	switch c.verb {
	case say:
		written = pipe.Do(ctx, "APPEND", c.key, c.args[0])
		ask()
	case create:
		written = pipe.Do(ctx, "SETNX", c.key, c.args[0])
		ask()
	case amend, reserve:
		s := scripts[c.verb]
		sent := []any{"EVALSHA", s.hash, 1, c.key}
		if whole {
			sent[0], sent[1] = "EVAL", s.source
		}
		read = goredis.NewStringCmd(ctx, append(sent, c.args...)...)
		_ = pipe.Process(ctx, read)
		return nil, read
	}
	return written, pipe.Get(ctx, c.key)
}

// runner does commands, those of one key in their order. With durable, what they wrote and
// what they read outlives a failover when it returns. A reply counts only without an error.
type runner interface {
	run(ctx context.Context, durable bool, commands []*command) error
}
