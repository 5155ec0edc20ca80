package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/neardup/neardup/client/api"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/internal/wire"
)

// TaskState is the state of a compaction or a checkpoint.
type TaskState struct {
	State      string             `json:"state" doc:"none, running, done or failed"`
	Error      *api.Error         `json:"error,omitempty" doc:"why it failed"`
	Name       string             `json:"name,omitempty" doc:"name of a checkpoint"`
	Compaction *compaction.Report `json:"compaction,omitempty" doc:"result of a compaction"`
}

// task runs compactions or checkpoints, one at a time. Only Shutdown cancels them.
type task struct {
	mu    sync.Mutex
	state TaskState // of the last run
}

func (t *task) get() TaskState {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.state
	state.State = cmp.Or(state.State, "none")
	return state
}

// start runs work in the background and returns its state. If a run with the same name is in
// progress, start returns the state of this run. If its name differs, start returns ErrBusy.
func (s *Server) start(
	t *task, name string, work func(ctx context.Context, done *TaskState) error,
) (TaskState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.State == "running" && t.state.Name != name {
		return TaskState{}, fmt.Errorf("%w: the checkpoint %q is running", api.ErrBusy,
			t.state.Name)
	}
	if t.state.State != "running" {
		t.state = TaskState{State: "running", Name: name}
		s.running.Go(func() {
			done := TaskState{State: "done", Name: name}
			if err := work(s.stopping, &done); err != nil {
				if s.stopping.Err() != nil && errors.Is(err, context.Canceled) {
					err = errStopping
				}
				s.noteError(err)
				done = TaskState{State: "failed", Name: name, Error: &wire.FailureOf(err).Said}
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			t.state = done
		})
	}
	return t.state, nil
}

// compact answers POST /v1/compact.
func (s *Server) compact(a *answer, _ *http.Request, _ url.Values) error {
	return a.json(s.start(&s.compaction, "", func(ctx context.Context, done *TaskState) error {
		report, err := compaction.Compact(ctx, s.index.Index,
			compaction.Options{MemoryBytes: 256 << 20}) // for sorting
		done.Compaction = &report
		return err
	}))
}

var checkpointName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)

// checkpoint answers POST /v1/checkpoint.
func (s *Server) checkpoint(a *answer, _ *http.Request, values url.Values) error {
	if s.opts.Checkpoints == "" {
		return wire.Failuref(wire.Forbidden, http.StatusForbidden,
			"the server has no directory for checkpoints: start serve with --checkpoints DIR")
	}
	name := values.Get("name")
	if !checkpointName.MatchString(name) {
		return badCall("name is %.80q, want up to 100 letters, digits, dots, hyphens and "+
			"underscores, and no dot at the beginning", name)
	}
	dir := filepath.Join(s.opts.Checkpoints, name)
	if running := s.checkpointing.get(); running.State != "running" || running.Name != name {
		if _, err := os.Lstat(dir); err == nil {
			return wire.Failuref(wire.Exists, http.StatusConflict,
				"the checkpoint %s exists: choose another name", name)
		}
	}
	return a.json(s.start(&s.checkpointing, name, func(ctx context.Context, _ *TaskState) error {
		return s.index.Checkpoint(ctx, dir)
	}))
}
