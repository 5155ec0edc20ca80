package store

import (
	"testing"

	"github.com/neardup/neardup/internal/testseed"
)

func TestMain(m *testing.M) {
	testseed.MostlyWait()
	m.Run()
}
