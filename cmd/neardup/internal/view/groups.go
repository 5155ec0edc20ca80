package view

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/neardup/neardup/index"
	"github.com/neardup/neardup/internal/duplicates"
)

// groupsPage is the data of the page with the groups of near-duplicates of a host.
type groupsPage struct {
	Host      string
	Looked    int64       // documents of the index that were read
	Cut       bool        // the index has more documents
	Documents int         // of the host
	Full      bool        // the host can have more documents
	Most      *countTable // documents of the host with the most duplicates
	Groups    []group
	Left      int // groups that are not shown
}

type group struct {
	First   string
	Members []member
	Left    int // members that are not shown
	N       int
	More    bool // the group can have more documents than N
}

type member struct {
	Key      string
	Distance int
	Path     string
	Words    int
}

// Limits of the page of groups.
const (
	maxLooked  = 2_000_000
	maxOfHost  = 5_000
	maxKeys    = 8 << 20 // bytes of their keys
	maxMost    = 20
	maxGroups  = 50
	maxLinked  = 16 << 10 // bytes of the two keys in a link
	maxMembers = 20
	maxOfGroup = 200 // documents that are counted per group
)

func (p *Pages) groups(r *http.Request) (any, error) {
	g := &groupsPage{Host: strings.ToLower(strings.TrimSpace(r.Form.Get("host")))}
	if g.Host == "" {
		return g, nil
	}
	if host := duplicates.Host(g.Host); host != "" { // a URL
		g.Host = host
	}
	if !p.scans.TryAcquire(1) {
		return nil, &problem{http.StatusServiceUnavailable,
			"Another request searches for groups. Try again in a moment."}
	}
	defer p.scans.Release(1)
	docs, err := p.ofHost(r.Context(), g)
	if err != nil {
		return nil, err
	}
	if err := p.most(r.Context(), g, docs); err != nil {
		return nil, err
	}
	return g, p.group(r.Context(), g, docs)
}

// most sets g.Most.
func (p *Pages) most(ctx context.Context, g *groupsPage, docs []index.Document) error {
	ids := make([]uint64, len(docs))
	for i := range docs {
		ids[i] = docs[i].ID
	}
	counts, err := p.index.Duplicates(ctx, ids...)
	var most []Count
	for i, n := range counts {
		if n > 0 {
			most = append(most, Count{Name: docs[i].Key, N: int64(n)})
		}
	}
	slices.SortStableFunc(most, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	g.Most = tableOf("Documents with the most duplicates", "document", "duplicates",
		most[:min(len(most), maxMost)])
	g.Most.Keys = true
	return err
}

// ofHost returns the documents of the host, up to the limits.
func (p *Pages) ofHost(ctx context.Context, g *groupsPage) (docs []index.Document, err error) {
	keys := 0
	for d, err := range p.index.Documents(ctx) {
		if err != nil {
			return nil, err
		}
		if g.Looked++; g.Looked > maxLooked {
			g.Looked, g.Cut = maxLooked, true
			break
		}
		if duplicates.Host(d.Key) == g.Host {
			if keys += len(d.Key); len(docs) == maxOfHost || keys > maxKeys {
				g.Full = true
				break
			}
			docs = append(docs, d)
		}
	}
	g.Documents = len(docs)
	return docs, nil
}

// group finds the documents of any host that match each of docs. It skips documents that are
// already in a group.
func (p *Pages) group(ctx context.Context, g *groupsPage, docs []index.Document) error {
	queries := make([]index.Query, len(docs))
	for i, d := range docs {
		queries[i] = index.Query{Signature: d.Signature(), Scope: d.Scope, Limit: maxOfGroup}
	}
	taken := make(map[uint64]bool)
	for a, err := range p.index.QueryBatch(ctx, queries) {
		if err != nil {
			return err
		}
		first := &docs[a.Query]
		// a member that a group of more than maxOfGroup members does not list finds the same group
		if taken[first.ID] || len(a.Matches) < 2 || taken[a.Matches[0].ID] {
			continue
		}
		one := group{First: first.Key, N: len(a.Matches), More: len(a.Matches) == maxOfGroup}
		for _, m := range a.Matches {
			taken[m.ID] = true
			if m.ID == first.ID {
				continue
			}
			if len(one.Members) == maxMembers {
				one.Left++
				continue
			}
			one.Members = append(one.Members, member{Key: m.Key, Distance: m.Distance,
				Words: m.Tokens})
		}
		if len(one.Members) > 0 {
			g.Groups = append(g.Groups, one)
		}
		if len(g.Groups) == 2*maxGroups {
			g.keepLargest()
		}
	}
	g.keepLargest()
	for _, one := range g.Groups {
		for i := range one.Members {
			if m := &one.Members[i]; m.Key != "" && len(one.First)+len(m.Key) <= maxLinked {
				m.Path = pathTo("/compare", "a", one.First, "b", m.Key)
			}
		}
	}
	return nil
}

// keepLargest drops the groups that are not shown, since keys may be long.
func (g *groupsPage) keepLargest() {
	slices.SortStableFunc(g.Groups, func(a, b group) int { return b.N - a.N })
	if more := len(g.Groups) - maxGroups; more > 0 {
		clear(g.Groups[maxGroups:])
		g.Left, g.Groups = g.Left+more, g.Groups[:maxGroups]
	}
}
