package store

import (
	"fmt"
	"log/slog"
)

// pebbleLogger hands Pebble's messages to the caller's logger.
type pebbleLogger struct{ logger *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	if l.logger != nil {
		l.logger.Debug(fmt.Sprintf(format, args...), "from", "pebble")
	}
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	if l.logger != nil {
		l.logger.Error(fmt.Sprintf(format, args...), "from", "pebble")
	}
}

// Fatalf is called where Pebble can not go on without risking data. It must not
// return; a panic leaves a trace, which an exit would not. What a file system can cause is
// kept from Pebble by failStop, so this is for errors in Pebble itself.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic(fmt.Sprintf("neardup/store: "+format, args...))
}
