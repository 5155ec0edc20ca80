package view

import (
	"net/http"

	"github.com/neardup/neardup"
	"github.com/neardup/neardup/compaction"
	"github.com/neardup/neardup/index"
)

// overviewPage is the data of the first page.
type overviewPage struct {
	Stats      index.Stats
	Verdicts   *countTable
	Duplicates string // their share of the verdicts
	Texts      int
	Compaction string
	Failure    string // of the last compaction
}

func (p *Pages) overview(*http.Request) (any, error) {
	o := &overviewPage{Stats: p.index.Stats()}
	if o.Stats.Tables == 0 {
		return nil, &problem{http.StatusServiceUnavailable, "The index is closed."}
	}
	if p.opts.Texts != nil {
		o.Texts = p.opts.Texts.Documents()
	}
	var verdicts []Count
	for status := neardup.New; status <= neardup.Skipped; status++ {
		if n := p.opts.Verdicts(status); n > 0 {
			verdicts = append(verdicts, Count{Name: status.String(), N: n})
		}
	}
	o.Verdicts = verdictTable("Since the start of the server", "pages", verdicts)
	o.Duplicates = percent(p.opts.Verdicts(neardup.Duplicate), o.Verdicts.Total)
	o.describe(p.index.Compaction())
	return o, nil
}

// describe sets the texts about the compaction in the background.
func (o *overviewPage) describe(c compaction.BackgroundStats) {
	o.Compaction, o.Failure = "none in the background since the start", c.Failure
	switch {
	case c.Running && c.Progress.Total > 0:
		o.Compaction = "running: " + c.Progress.Stage + ", " +
			percent(int64(c.Progress.Done), int64(c.Progress.Total))
	case c.Running:
		o.Compaction = "running"
	case c.Runs > 0:
		o.Compaction = "the last one in the background ended on " +
			c.LastEnd.Format("2 January 15:04")
	}
}
