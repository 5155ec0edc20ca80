package selfjoin

import (
	"context"
	"errors"
)

// windows finds the components of a graph whose nodes memory does not hold. The nodes,
// ascending, are cut into windows that it does hold. From the last window to the first,
// the edges that reach a window are joined in memory: edges within it disappear, and
// each tree keeps one edge to a node before the window, out; every other one to a node
// before it is replaced by one between these two nodes, which is left to their windows.
// So there are never more edges than at first, and one window reads them once. Then,
// from the first window to the last, each tree has the label of its out.
type windows struct {
	ctx   context.Context
	home  *scratch
	nodes *recordFile[[3]uint64]
	size  int64 // nodes of a window

	roots    *recordFile[[1]uint64] // of each node within its window, the last window first
	requests *recordFile[[2]uint64] // an out, and the root that has it
	answers  *recordFile[[2]uint64] // a root, and its label
}

// windowBytes is what a window takes for a node: fingerprint, directory, forest, out.
const windowBytes = 8 + 4 + 4 + 8

// labelComponents returns the label of each node: the smallest node of its component.
// It uses the edges up.
func labelComponents(ctx context.Context, scratch *scratch, memory int64, nodes *recordFile[[3]uint64], edges *recordFile[[2]uint64]) (labels *recordFile[[1]uint64], err error) {
	w := &windows{ctx: ctx, home: scratch, nodes: nodes, size: max(memory/2/windowBytes, 1)}
	if err := w.open(); err != nil {
		return nil, err
	}
	n := (nodes.len + w.size - 1) / w.size
	for i := n - 1; i >= 0; i-- {
		if edges, err = w.join(i, edges); err != nil {
			return nil, err
		}
	}
	if err := edges.remove(); err != nil { // none is left
		return nil, err
	}
	if labels, err = newRecordFile[[1]uint64](scratch); err != nil {
		return nil, err
	}
	for i := range n {
		if err := w.label(i, labels); err != nil {
			return nil, err
		}
	}
	return labels, errors.Join(labels.finish(), w.roots.remove(), w.requests.remove(), w.answers.remove())
}

func (w *windows) open() (err error) {
	if w.roots, err = newRecordFile[[1]uint64](w.home); err != nil {
		return err
	}
	if w.requests, err = newRecordFile[[2]uint64](w.home); err != nil {
		return err
	}
	w.answers, err = newRecordFile[[2]uint64](w.home)
	return err
}

// begin returns the place of the first node of a window.
func (w *windows) begin(i int64) int64 { return min(i*w.size, w.nodes.len) }

func (w *windows) load(i int64) (*Set, error) {
	fps := make([]fp, 0, w.begin(i+1)-w.begin(i))
	for part, err := range w.nodes.between(w.begin(i), w.begin(i+1)) {
		if err != nil {
			return nil, err
		}
		for _, r := range part {
			fps = append(fps, fp(r[0]))
		}
	}
	set, err := SortedSet(fps)
	return set, errors.Join(err, w.ctx.Err())
}

// windowJoin joins the nodes of one window.
type windowJoin struct {
	*Set
	roots forest
	outs  []fp // of a root: a node before the window, or itself if there is none
}

// join takes the edges whose larger node is in a window. It returns the others, and
// those that take the place of what it took.
func (w *windows) join(i int64, edges *recordFile[[2]uint64]) (rest *recordFile[[2]uint64], err error) {
	set, err := w.load(i)
	if err != nil {
		return nil, err
	}
	j := &windowJoin{set, newForest(set.Len()), append([]fp(nil), set.fps...)}
	first := set.Fingerprint(0)
	rest, err = sift(w.ctx, w.home, edges, func(rest *recordFile[[2]uint64], edge [2]uint64) (bool, error) {
		if fp(edge[0]) < first {
			return false, nil
		}
		a, _ := set.Node(fp(edge[0]))
		if fp(edge[1]) < first {
			return true, j.reach(rest, j.roots.root(a), fp(edge[1]))
		}
		b, _ := set.Node(fp(edge[1]))
		return true, j.join(rest, a, b)
	})
	if err != nil {
		return nil, err
	}
	j.roots.flatten()
	for node, root := range j.roots {
		if err := w.roots.add([1]uint64{uint64(root)}); err != nil {
			return nil, err
		}
		if out := j.outs[node]; root == Node(node) && out != set.Fingerprint(root) {
			if err := w.requests.add([2]uint64{uint64(out), uint64(set.Fingerprint(root))}); err != nil {
				return nil, err
			}
		}
	}
	return rest, w.roots.finish()
}

func (j *windowJoin) join(rest *recordFile[[2]uint64], a, b Node) error {
	a, b = j.roots.root(a), j.roots.root(b)
	if a == b {
		return nil
	}
	j.roots[max(a, b)] = min(a, b)
	if out := j.outs[max(a, b)]; out != j.fps[max(a, b)] {
		return j.reach(rest, min(a, b), out)
	}
	return nil
}

// reach connects a root with a node before the window.
func (j *windowJoin) reach(rest *recordFile[[2]uint64], root Node, f fp) error {
	switch out := j.outs[root]; out {
	case j.fps[root]:
		j.outs[root] = f
	case f:
	default:
		return rest.add([2]uint64{uint64(max(out, f)), uint64(min(out, f))})
	}
	return nil
}

// label writes the labels of a window; those of the windows before are known.
func (w *windows) label(i int64, labels *recordFile[[1]uint64]) (err error) {
	set, err := w.load(i)
	if err != nil {
		return err
	}
	last := set.Fingerprint(Node(set.Len() - 1))
	of := append([]fp(nil), set.fps...)
	w.answers, err = sift(w.ctx, w.home, w.answers, func(_ *recordFile[[2]uint64], answer [2]uint64) (bool, error) {
		if fp(answer[0]) > last {
			return false, nil
		}
		root, _ := set.Node(fp(answer[0]))
		of[root] = fp(answer[1])
		return true, nil
	})
	if err != nil {
		return err
	}
	node := 0
	begin := w.nodes.len - w.begin(i+1)
	for part, err := range w.roots.between(begin, begin+int64(len(of))) {
		if err != nil {
			return err
		}
		for _, root := range part {
			of[node] = of[root[0]] // which comes first
			if err := labels.add([1]uint64{uint64(of[node])}); err != nil {
				return err
			}
			node++
		}
	}
	w.requests, err = sift(w.ctx, w.home, w.requests, func(_ *recordFile[[2]uint64], request [2]uint64) (bool, error) {
		if fp(request[0]) > last {
			return false, nil
		}
		out, _ := set.Node(fp(request[0]))
		return true, w.answers.add([2]uint64{request[1], uint64(of[out])})
	})
	return err
}
