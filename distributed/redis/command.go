package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// command is one step of the protocol on keys of one slot. Each may be repeated: a command that
// was done, and whose reply was lost, gives the same reply when it is done again.
type command struct {
	verb verb
	keys []string
	args []any

	value string // the reply; "" where there is nothing
	err   error
}

// verb is what a command does.
type verb int

const (
	// get reads a value.
	get verb = iota
	// announce appends an entry to a bucket.
	announce
	// kill makes a cell dead unless it is something already.
	kill
	// commit makes a cell a record: keys cell, floor and, with a key, its entry and the cell of the earlier
	// self, or the own again where there is none; args seq, its bytes, record, and the bytes of the earlier self's.
	// Replies committed, killed, or moved on: the key has another document by now.
	commit
	// drop makes a record dead and takes its key from it: keys cell and, with a key, its entry; args
	// the bytes of seq, and a token by which a repeated drop knows its own. Replies committed if this drop did it.
	// A key whose record was lost goes as well.
	drop
	// remove takes the entries of documents out of a bucket, and those that are there twice, and
	// rewrites it without room to grow: key bucket; args the bytes of an entry, then IDs.
	remove
	// forget removes a dead cell and raises the floor: keys cell and floor; arg the floor.
	forget
	// reserve gives out sequence numbers: key sequence; arg how many. Replies the last of them.
	reserve
	// create writes what is missing, and replies what is there then: key meta.
	create
	// elapsed is reserve of none that changes nothing: the last number, or the time as one.
	elapsed
)

// Replies of commit and drop.
const (
	committed = "committed"
	killed    = "killed"
	movedOn   = "moved on"
)

// scripts are Lua of Redis 5 and later. Where memory is used up, a script may write if
// its first write frees some, so those that only make room begin with DEL.
var scripts = map[verb]script{
	kill: newScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return '' end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], 'x')
return 'OK'`),
	commit: newScript(`
local cell = redis.call('GET', KEYS[1])
if cell then
  if cell == ARGV[3] then return 'committed' end
  return 'killed'
end
local floor = redis.call('GET', KEYS[2])
if floor and tonumber(floor) >= tonumber(ARGV[1]) then return 'killed' end
if KEYS[3] then
  local known = redis.call('GET', KEYS[3]) or ''
  if known ~= ARGV[4] then return 'moved on' end
end
redis.call('SET', KEYS[1], ARGV[3])
if KEYS[3] then
  redis.call('SET', KEYS[3], ARGV[2])
  if ARGV[4] ~= '' then redis.call('SET', KEYS[4], 'x') end
end
return 'committed'`),
	drop: newScript(`
local cell = redis.call('GET', KEYS[1])
if cell == 'x' .. ARGV[2] then return 'committed' end
if KEYS[2] and redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
if not cell or string.sub(cell, 1, 1) == 'x' then return 'killed' end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], 'x' .. ARGV[2])
return 'committed'`),
	remove: newScript(`
local bucket = redis.call('GET', KEYS[1])
if not bucket then return '' end
local width, gone, kept = tonumber(ARGV[1]), {}, {}
for i = 2, #ARGV do gone[ARGV[i]] = true end
for at = 1, #bucket - width + 1, width do
  local of = string.sub(bucket, at + width - 8, at + width - 1)
  if not gone[of] then
    gone[of] = true
    kept[#kept + 1] = string.sub(bucket, at, at + width - 1)
  end
end
redis.call('DEL', KEYS[1])
if #kept > 0 then redis.call('SET', KEYS[1], table.concat(kept)) end
return ''`),
	forget: newScript(`
local cell, floor = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if cell and string.sub(cell, 1, 1) == 'x' then redis.call('DEL', KEYS[1]) end
if not floor or tonumber(floor) < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
return ''`),
	reserve: newScript(sequenceLua + `
last = last + tonumber(ARGV[1])
redis.call('SET', KEYS[1], string.format('%.0f', last))
return string.format('%.0f', last)`),
	create: newScript(`
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])`),
	elapsed: newScript(sequenceLua + `
return string.format('%.0f', last)`),
}

// sequenceLua leaves the last number in last: not below the time since the epoch in 10 us.
const sequenceLua = `
local time = redis.call('TIME')
local last = (tonumber(time[1]) - 1704067200) * 100000 + math.floor(tonumber(time[2]) / 10)
last = math.max(last, tonumber(redis.call('GET', KEYS[1]) or '0'))`

// arguments are what is sent. A script goes by its hash, or whole.
func (c *command) arguments(whole bool) []any {
	switch c.verb {
	case get:
		return []any{"GET", c.keys[0]}
	case announce:
		return []any{"APPEND", c.keys[0], c.args[0]}
	}
	s, sent := scripts[c.verb], []any{"EVALSHA", nil, len(c.keys)}
	if sent[1] = s.hash; whole {
		sent[0], sent[1] = "EVAL", s.source
	}
	for _, key := range c.keys {
		sent = append(sent, key)
	}
	return append(sent, c.args...)
}

// script is Lua with the hash by which Redis knows it.
type script struct{ source, hash string }

func newScript(source string) script { return script{source, goredis.NewScript(source).Hash()} }

// runner does commands, each whole, in no order. With durable, what they wrote and
// what they read outlives a failover when it returns. A reply counts only without an error.
type runner interface {
	run(ctx context.Context, durable bool, commands []*command) error
}
