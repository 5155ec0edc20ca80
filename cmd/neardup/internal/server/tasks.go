package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/internal/wire"
)

// TaskState is the answer to a call that starts a compaction or a checkpoint, and to one that asks for its state.
type TaskState struct {
	State      string             `json:"state"` // none, running, done or failed
	Error      string             `json:"error,omitempty"`
	Code       string             `json:"code,omitempty"`
	Name       string             `json:"name,omitempty"` // of a checkpoint
	Compaction *compaction.Report `json:"compaction,omitempty"`
	Checkpoint *Checkpointed      `json:"checkpoint,omitempty"`
}

// task is a compaction or a checkpoint: one runs at a time, whether its caller waits for it or not. Only the end of the
// server cancels it.
type task struct {
	mu    sync.Mutex
	state TaskState // of the last one
}

func (t *task) get() TaskState {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.State == "" {
		return TaskState{State: "none"}
	}
	return t.state
}

// start runs work in the background and returns its state. If a task with that name is running, it returns the state of that one;
// if one with another name is, ErrBusy.
func (s *Server) start(t *task, name string, work func(ctx context.Context, done *TaskState) error) (TaskState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.State == "running" {
		if t.state.Name != name {
			return TaskState{}, fmt.Errorf("%w: the checkpoint %q is running", wire.ErrBusy, t.state.Name)
		}
		return t.state, nil
	}
	t.state = TaskState{State: "running", Name: name}
	s.tasks.Go(func() {
		done := TaskState{State: "done", Name: name}
		if err := work(s.stopping, &done); err != nil {
			if s.isStopping() && errors.Is(err, context.Canceled) {
				err = errStopping
			}
			s.noteError(err)
			failure, _ := failureOf(err)
			done = TaskState{State: "failed", Name: name, Error: failure.Error, Code: failure.Code}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.state = done
	})
	return t.state, nil
}

// accepted answers with the state of a task that was started.
func (a *answer) accepted(state TaskState, path string) error {
	a.Header().Set("Location", path)
	a.accept = true
	return a.json(state)
}

// compact answers POST /v1/compact. The compaction runs in the background, while calls go on.
func (s *Server) compact(a *answer, r *http.Request) error {
	if _, err := parametersOf(r); err != nil {
		return err
	}
	state, err := s.start(&s.compaction, "", func(ctx context.Context, done *TaskState) error {
		report, err := compaction.Compact(ctx, s.index.Index, compaction.Options{MemoryBytes: s.opts.CompactionBytes})
		done.Compaction = &report
		return err
	})
	if err != nil {
		return err
	}
	return a.accepted(state, "/v1/compact")
}

// compactState answers GET /v1/compact with the state of the last compaction that a call started.
func (s *Server) compactState(a *answer, r *http.Request) error {
	if _, err := parametersOf(r); err != nil {
		return err
	}
	return a.json(s.compaction.get())
}

// Checkpointed is a checkpoint that was made.
type Checkpointed struct {
	Checkpoint string `json:"checkpoint"`
	Documents  uint64 `json:"documents"`
	DiskBytes  uint64 `json:"diskBytes"` // of the index; linked files are counted
}

// checkpoint answers POST /v1/checkpoint?name=. The checkpoint is a directory of that name in the directory of all checkpoints.
func (s *Server) checkpoint(a *answer, r *http.Request) error {
	if s.opts.Checkpoints == "" {
		return &callError{wire.Forbidden, http.StatusForbidden, "serve was started without --checkpoints DIR, the folder to make them in"}
	}
	name, err := required(r, "name")
	if err != nil {
		return err
	}
	if !validName(name) {
		return badCall("name is %.80q, want letters, digits, dots, dashes and underscores, 100 at most, and not a dot first", name)
	}
	dir := filepath.Join(s.opts.Checkpoints, name)
	if running := s.checkpointing.get(); running.State != "running" || running.Name != name {
		if _, err := os.Lstat(dir); err == nil {
			return &callError{wire.Exists, http.StatusConflict, fmt.Sprintf("checkpoint %s: it exists", name)}
		}
	}
	state, err := s.start(&s.checkpointing, name, func(ctx context.Context, done *TaskState) error {
		if err := s.index.Checkpoint(ctx, dir); err != nil {
			return err
		}
		stats := s.index.Stats()
		done.Checkpoint = &Checkpointed{dir, stats.Documents, stats.DiskBytes}
		return nil
	})
	if err != nil {
		return err
	}
	return a.accepted(state, "/v1/checkpoint")
}

// checkpointState answers GET /v1/checkpoint with the state of the last checkpoint that a call started.
func (s *Server) checkpointState(a *answer, r *http.Request) error {
	if _, err := parametersOf(r); err != nil {
		return err
	}
	return a.json(s.checkpointing.get())
}

func validName(name string) bool {
	for i, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
		default:
			return false
		}
	}
	return name != "" && len(name) <= 100
}
