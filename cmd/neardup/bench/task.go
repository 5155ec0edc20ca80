package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/neardup/neardup/compaction"
)

// taskVariable tells a process that it is to do one task of a run. What is measured of
// a whole process, its memory and its sudden death, needs one of its own.
const taskVariable = "NEARDUP_BENCH_TASK"

// task is what such a process does.
type task struct {
	Name        string        `json:"name"` // a key of tasks
	Dir         string        `json:"dir"`  // of the index
	Seed        uint64        `json:"seed"`
	Documents   int           `json:"documents"`
	MaxDistance int           `json:"k"`
	CacheBytes  int64         `json:"cacheBytes"`
	FilterBytes int64         `json:"filterBytes"`
	Plan        string        `json:"plan"` // "": what the index chooses
	Keys        bool          `json:"keys"` // the documents have keys
	Shingles    bool          `json:"shingles"`
	Shape       string        `json:"shape"` // of the collection, for those that look for pairs
	More        int           `json:"more"`  // for write: documents to add; for pairs and join: rounds
	Time        time.Duration `json:"nanoseconds"`

	out *json.Encoder // of outcomes
}

// outcome is what it says of it.
type outcome struct {
	Report   compaction.Report `json:"report"`
	Peak     int64             `json:"peak"`     // bytes of memory that the process had at most
	Resident int64             `json:"resident"` // bytes that the index took of it
	Cached   int64             `json:"cached"`   // of those, what its cache can have

	Filters     int64 `json:"filters"` // bytes of memory, by what the index says
	Directories int64 `json:"directories"`

	Seconds  map[string][]float64 `json:"seconds,omitempty"` // of the steps, by round
	Pairs    int                  `json:"pairs,omitempty"`
	Clusters int                  `json:"clusters,omitempty"`

	Progress string `json:"progress,omitempty"` // how far it is; all else comes later
}

var tasks = map[string]func(context.Context, *task) (outcome, error){
	"load":    loadTask,
	"memory":  memoryTask,
	"write":   writeTask,
	"compact": compactTask,
	"pairs":   pairsTask,
	"join":    joinTask,

	"joinload": joinLoadTask,
}

// IsTask reports whether this process was started by Run, for RunTask to be called.
func IsTask() bool { return os.Getenv(taskVariable) != "" }

// RunTask does one task of a run that another process makes.
func RunTask(ctx context.Context, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(taskVariable)), &t); err != nil {
		return fmt.Errorf("%s: %w", taskVariable, err)
	}
	do := tasks[t.Name]
	if do == nil {
		return fmt.Errorf("%s: no task %q", taskVariable, t.Name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in) // it ends when the one who asked for the task does
		cancel()
		close(gone)
	}()
	t.out = json.NewEncoder(out)
	o, err := do(ctx, &t)
	if err != nil {
		return err
	}
	_, o.Peak = memory()
	if err := t.out.Encode(o); err != nil {
		return err
	}
	if t.Name == "write" {
		<-gone // with the index open, to be killed
	}
	return nil
}

// progress tells now and then how far compaction is.
func (t *task) progress() func(compaction.Progress) {
	var mu sync.Mutex
	told := time.Now()
	return func(p compaction.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(told) < progressEvery {
			return
		}
		told = time.Now()
		said := fmt.Sprintf("%s: %s, %d", t.Name, p.Stage, p.Done)
		if p.Total > 0 {
			said += fmt.Sprintf(" of %d", p.Total)
		}
		t.out.Encode(outcome{Progress: said}) // if it fails, so will the outcome
	}
}

const progressEvery = 10 * time.Second

// process is one that does a task.
type process struct {
	command *exec.Cmd
	out     *json.Decoder // of outcomes
	errors  *bytes.Buffer
	logf    func(format string, args ...any)
}

func (r *run) start(ctx context.Context, t task) (*process, error) {
	t.Seed, t.Documents, t.Dir, t.FilterBytes = r.Seed, r.Documents, r.path(t.Dir), r.FilterBytes
	if t.CacheBytes == 0 {
		t.CacheBytes = r.CacheBytes
	}
	description, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.CommandContext(ctx, program, "bench"), errors: new(bytes.Buffer), logf: r.logf}
	p.command.Env = append(os.Environ(), taskVariable+"="+string(description))
	p.command.Stderr = p.errors
	// It ends with this process, and then the task ends as well.
	if _, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	return p, p.command.Start()
}

// outcome waits for the task to be done.
func (p *process) outcome() (outcome, error) {
	for {
		var o outcome
		err := p.out.Decode(&o)
		switch {
		case err == nil && o.Progress != "":
			p.logf("%s", o.Progress)
			continue
		case err == nil:
			return o, nil
		}
		if err := p.command.Wait(); err != nil {
			return o, fmt.Errorf("%w: %s", err, bytes.TrimSpace(p.errors.Bytes()))
		}
		return o, err
	}
}

// do has a task done by another process.
func (r *run) do(ctx context.Context, t task) (o outcome, err error) {
	p, err := r.start(ctx, t)
	if err != nil {
		return o, err
	}
	if o, err = p.outcome(); err != nil {
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		return o, fmt.Errorf("task %s: %w", t.Name, err)
	}
	return o, p.command.Wait()
}
