package corpus

// Unparsed is a record that was read and not looked into.
type Unparsed struct {
	record  Record // what is known of it, or all
	parse   func(*Record)
	bytes   int // that parse holds on to
	counter *counter
	input   int
}

// Parse looks into the record and counts it. It is to be called once, on any
// goroutine; it takes memory as Options.MaxDocument says, each time that it runs.
func (u *Unparsed) Parse() Record {
	if u.parse != nil {
		u.parse(&u.record)
	}
	u.counter.count(u.input, &u.record)
	return u.record
}

// Bytes is the memory that the record holds until it is parsed.
func (u *Unparsed) Bytes() int { return u.bytes + cap(u.record.Content) }
