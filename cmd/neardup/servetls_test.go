package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/client"
	"github.com/neardup/neardup/client/api"
)

// TestServeTLS tests HTTP/2 and HTTP/1.1 over TLS, with the certificate of httptest. A client that
// cannot verify the server must get an error at once.
func TestServeTLS(t *testing.T) {
	made := httptest.NewTLSServer(nil)
	defer made.Close()
	own := made.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	pemFile := func(kind string, content []byte) string {
		return writeFile(t, "pem",
			string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})))
	}
	server := startServe(t, "--index", filepath.Join(t.TempDir(), "ix"),
		"--tls-cert", pemFile("CERTIFICATE", own.Certificate[0]),
		"--tls-key", pemFile("PRIVATE KEY", private))
	address := strings.Replace(server.address, "http:", "https:", 1)
	known := &tls.Config{RootCAs: x509.NewCertPool()}
	known.RootCAs.AddCert(made.Certificate())

	for protocol, two := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: known.Clone(),
			ForceAttemptHTTP2: two}}
		line := `{"key":"` + protocol + `","text":"words of ` + protocol + `"}` + "\n"
		r, err := caller.Post(address+"/v1/check", api.JSONLines,
			strings.NewReader(strings.Repeat(line, 1000)))
		must(t, err)
		said, err := io.ReadAll(r.Body)
		if err != nil || r.Proto != protocol ||
			!strings.Contains(string(said), `"verdict":"new"`) ||
			strings.Count(string(said), `"verdict":"unchanged"`) != 999 {
			t.Errorf("%s, want %s: %.2000q, %v", r.Proto, protocol, said, err)
		}
		r.Body.Close()
		caller.CloseIdleConnections()
	}
	c, err := client.Open(t.Context(), address, &client.Options{TLS: known})
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), client.Page{URL: "a",
		Body: []byte("words of a")}); err != nil || v.Status != client.New {
		t.Error(v, err)
	}
	for _, unknown := range []*tls.Config{{RootCAs: x509.NewCertPool()}, nil} {
		_, err := client.Open(t.Context(), address,
			&client.Options{TLS: unknown, RetryFor: 10 * time.Minute})
		if !errors.As(err, new(*tls.CertificateVerificationError)) {
			t.Errorf("%+v: %v", unknown, err)
		}
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
}
