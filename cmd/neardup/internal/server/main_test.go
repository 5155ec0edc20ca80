package server

import (
	"testing"

	"github.com/neardup/neardup/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.MostlyWait()
	m.Run()
}
