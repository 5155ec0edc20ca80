package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
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

// startTLS starts a server with the certificate of httptest, and returns how a caller knows it.
func startTLS(t *testing.T) (s *served, address string, known *tls.Config) {
	t.Helper()
	made := httptest.NewTLSServer(nil)
	defer made.Close()
	own := made.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	cert := writeFile(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})))
	key := writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	s = startServe(t, freeAddress(t), "--index", filepath.Join(t.TempDir(), "ix"), "--tls-cert", cert, "--tls-key", key)
	return s, strings.Replace(s.address, "http:", "https:", 1), &tls.Config{RootCAs: made.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
}

// Over TLS there are HTTP/2 and HTTP/1.1. Whoever cannot know the server is told so at once, with the reason: to try
// again would not help.
func TestServeTLS(t *testing.T) {
	server, address, known := startTLS(t)
	for protocol, two := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: known.Clone(), ForceAttemptHTTP2: two}}
		r, err := caller.Post(address+"/v1/check", api.JSONLines, strings.NewReader(`{"key":"`+protocol+`","text":"words of `+protocol+`"}`))
		must(t, err)
		line, err := io.ReadAll(r.Body)
		if err != nil || r.Proto != protocol || !strings.Contains(string(line), `"verdict":"new"`) {
			t.Errorf("%s, want %s: %q, %v", r.Proto, protocol, line, err)
		}
		r.Body.Close()
		caller.CloseIdleConnections()
	}
	c, err := client.Open(t.Context(), address, &client.Options{TLS: known})
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), client.Page{URL: "a", Body: []byte("words of a")}); err != nil || v.Status != client.New {
		t.Error(v, err)
	}

	plain := startServe(t, freeAddress(t), "--index", filepath.Join(t.TempDir(), "ix"))
	named, old, late := known.Clone(), known.Clone(), known.Clone()
	named.ServerName, old.MinVersion, old.MaxVersion = "example.net", tls.VersionTLS10, tls.VersionTLS11
	late.Time = func() time.Time { return time.Now().AddDate(100, 0, 0) }
	silent, err := net.Listen("tcp", "127.0.0.1:0") // something else that listens
	must(t, err)
	defer silent.Close()
	go func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			conn.Read(make([]byte, 1))
			io.WriteString(conn, "SSH-2.0-OpenSSH_10.0\r\n")
		}
	}()
	for _, c := range []struct {
		what, address string
		known         *tls.Config
		says          string
	}{
		{"another authority", address, &tls.Config{RootCAs: x509.NewCertPool()}, "certificate signed by unknown authority"},
		{"the authorities of the machine", address, nil, "certificate signed by unknown authority"},
		{"another name", address, named, "not example.net"},
		{"an old version", address, old, "protocol version not supported"},
		{"an expired certificate", address, late, "certificate has expired"},
		{"HTTP to the port of TLS", strings.Replace(address, "https:", "http:", 1), nil, "HTTP request to an HTTPS server"},
		{"TLS to the port of HTTP", strings.Replace(plain.address, "http:", "https:", 1), known, "HTTP response to HTTPS client"},
		{"no HTTP at all", "http://" + silent.Addr().String(), nil, "malformed HTTP response"},
	} {
		begun := time.Now()
		opened, err := client.Open(t.Context(), c.address, &client.Options{TLS: c.known, RetryFor: 10 * time.Minute})
		if err == nil || !strings.Contains(err.Error(), c.says) || opened != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		var unknown *tls.CertificateVerificationError
		if strings.Contains(c.says, "certificate") && !errors.As(err, &unknown) {
			t.Errorf("%s: %T", c.what, err)
		}
		if took := time.Since(begun); took > 5*time.Minute {
			t.Errorf("%s: it was told after %v", c.what, took)
		}
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
}
