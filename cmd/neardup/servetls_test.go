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

// startTLS starts a server with the certificate of httptest, and returns the TLS configuration of
// a client.
func startTLS(t *testing.T) (s *served, address string, known *tls.Config) {
	t.Helper()
	made := httptest.NewTLSServer(nil)
	defer made.Close()
	own := made.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	cert := writeFile(t, "cert.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})))
	key := writeFile(t, "key.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	s = startServe(t, freeAddress(t), "--index", filepath.Join(t.TempDir(), "ix"), "--tls-cert",
		cert, "--tls-key", key)
	return s, strings.Replace(s.address, "http:", "https:", 1),
		&tls.Config{RootCAs: made.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
}

// TestServeTLS tests HTTP/2 and HTTP/1.1 over TLS. A client that cannot verify the server must
// get an error at once.
func TestServeTLS(t *testing.T) {
	server, address, known := startTLS(t)
	for protocol, two := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: known.Clone(),
			ForceAttemptHTTP2: two}}
		line := `{"key":"` + protocol + `","text":"words of ` + protocol + `"}` + "\n"
		r, err := caller.Post(address+"/v1/check", api.JSONLines,
			strings.NewReader(strings.Repeat(line, 1000)))
		must(t, err)
		said, err := io.ReadAll(r.Body)
		if err != nil || r.Proto != protocol || !strings.Contains(string(said), `"verdict":"new"`) ||
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

	for what, unknown := range map[string]*tls.Config{"another authority": {RootCAs: x509.NewCertPool()}, "the authorities of the machine": nil} {
		opened, err := client.Open(t.Context(), address,
			&client.Options{TLS: unknown, RetryFor: 10 * time.Minute})
		if wrong := (*tls.CertificateVerificationError)(nil); !errors.As(err, &wrong) ||
			opened != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
}
