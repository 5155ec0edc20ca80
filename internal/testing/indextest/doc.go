// Package indextest has a model of an index, for tests of the index and of its callers. Rule and
// Documents define in a few lines the answer of every call in a sequence of calls.
package indextest
