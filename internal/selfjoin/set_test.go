package selfjoin

import "testing"

func newSet(t testing.TB, fps []fp) *Set {
	t.Helper()
	s, err := NewSet(fps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sortedSet(t testing.TB, fps []fp) *Set {
	t.Helper()
	s, err := SortedSet(fps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
