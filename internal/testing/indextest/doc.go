// Package indextest compares an index with a model. Rule and Documents define in a few lines the
// answer of every call in a sequence of calls. In a World, many goroutines call one index
// concurrently, with shared keys, scopes and groups of near-duplicates. The World accepts their
// history only if the index is linearizable: some order of the calls, each between its begin and
// its end, must explain every answer. After a crash, the index must equal the result of such an
// order of all acknowledged calls and some of the unfinished calls.
package indextest
