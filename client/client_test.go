package client

import (
	"os/exec"
	"strings"
	"testing"
)

// A crawler that asks a served index links neither the index nor its store.
func TestLinksNoStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skip("go list does not run here:", err)
	}
	if !strings.Contains(string(out), "github.com/neardup/neardup/internal/wire\n") {
		t.Fatalf("%s", out)
	}
	for _, other := range []string{"cockroachdb/pebble", "neardup/internal/store", "neardup/index\n", "prometheus/client_golang"} {
		if strings.Contains(string(out), other) {
			t.Errorf("it links %s", other)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7490", "ftp://127.0.0.1", "http://", "pages.neardup", "http://a b"} {
		if c, err := Open(address, &Options{RetryFor: -1}); err == nil || !strings.Contains(err.Error(), "want an address") {
			t.Errorf("%q: %v, %v", address, c, err)
		}
	}
	if c, err := Open("http://127.0.0.1:1", &Options{Token: "two\nlines"}); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Error(c, err)
	}
}
