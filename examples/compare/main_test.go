package main

import (
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

// TestMethods checks which equal, changed and new pages each method reports as known.
func TestMethods(t *testing.T) {
	const n = 2000
	for name, open := range map[string]struct {
		method  func(t *testing.T) *method
		changed bool
	}{
		"digests": {func(t *testing.T) *method { return opened(t)(digests(t.Context(), n)) },
			false},
		"Redis": {func(t *testing.T) *method {
			testenv.Program(t, "redis-server")
			return opened(t)(inRedis(t.Context(), n))
		}, false},
		"Bloom": {func(t *testing.T) *method { return opened(t)(filter(t.Context(), n)) }, false},
		"neardup": {func(t *testing.T) *method { return opened(t)(nearDuplicates(t.Context(), n)) },
			true},
	} {
		t.Run(name, func(t *testing.T) {
			m := open.method(t)
			defer func() {
				if err := m.close(); err != nil {
					t.Error(err)
				}
			}()
			known, err := m.check(pages(0, n))
			if err != nil || len(known) != n {
				t.Fatal(len(known), err)
			}
			var found [4]int
			for i, is := range known {
				if is {
					found[i%4]++
				}
			}
			if found[2] != n/4 || found[0]+found[1] > n/100 ||
				(found[3] > n/4*98/100) != open.changed || !open.changed && found[3] > n/100 {
				t.Error(found)
			}
			if memory, _, err := m.bytes(); err != nil || memory == 0 {
				t.Error(memory, err)
			}
		})
	}
}

func opened(t *testing.T) func(*method, error) *method {
	return func(m *method, err error) *method {
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}
