// Package testgen makes what tests and benchmarks read: pages of one template, archives of
// made-up pages, and records whose order hurts a sort.
//
// The same seed gives the same bytes, on any platform and with any Go release, but for
// gzip members, whose content is fixed and whose compression is not. Nothing was taken from
// a real site: the sentences are under text, and every host has a reserved name (RFC 2606).
package testgen
