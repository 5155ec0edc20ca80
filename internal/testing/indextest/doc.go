// Package indextest holds an index to a model of it. Rule and Documents say in a few
// lines what every call has to answer when calls come one after the other. A World lets
// many goroutines call one index at the same time, with shared keys, scopes and groups of
// near-duplicates, and accepts their history only if some order of the calls, each
// between its begin and its end, explains every answer: the index is linearizable. After
// a crash it accepts what is left only if it is what such an order of all acknowledged
// calls and some of those under way leaves.
package indextest
