package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/neardup/neardup/client"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := new(authority)
	a.certificate, a.key, _ = a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "tests"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true})
	return a
}

// sign makes a certificate, of the authority itself where it has none yet.
func (a *authority) sign(t *testing.T, c *x509.Certificate) (signed *x509.Certificate, key *ecdsa.PrivateKey, der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	issuer, issuerKey := a.certificate, a.key
	if issuer == nil {
		issuer, issuerKey = c, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, issuerKey); err == nil {
		signed, err = x509.ParseCertificate(der)
	}
	must(t, err)
	return signed, key, der
}

// files writes a certificate for loopback and its key.
func (a *authority) files(t *testing.T, until time.Time) (cert, key string) {
	t.Helper()
	_, private, der := a.sign(t, &x509.Certificate{DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: until})
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert = writeFile(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert, writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func (a *authority) known() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{RootCAs: pool}
}

// startTLS starts a server with a certificate of an authority.
func startTLS(t *testing.T, a *authority, until time.Time) (s *served, address string) {
	t.Helper()
	cert, key := a.files(t, until)
	s = startServe(t, freeAddress(t), "-index", filepath.Join(t.TempDir(), "ix"), "-tls-cert", cert, "-tls-key", key)
	return s, strings.Replace(s.address, "http:", "https:", 1)
}

// Over TLS there are HTTP/2 and HTTP/1.1. Whoever cannot know the server is told so at once, with the reason: to try
// again would not help.
func TestServeTLS(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)
	server, address := startTLS(t, authority, time.Now().Add(time.Hour))
	for protocol, two := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		caller := &http.Client{Transport: &http.Transport{TLSClientConfig: authority.known(), ForceAttemptHTTP2: two}}
		r, err := caller.Post(address+"/v1/check", "", strings.NewReader(`{"key":"`+protocol+`","text":"words of `+protocol+`"}`))
		must(t, err)
		line, err := io.ReadAll(r.Body)
		if err != nil || r.Proto != protocol || !strings.Contains(string(line), `"verdict":"new"`) {
			t.Errorf("%s, want %s: %q, %v", r.Proto, protocol, line, err)
		}
		r.Body.Close()
		caller.CloseIdleConnections()
	}
	c, err := client.Open(address, &client.Options{TLS: authority.known()})
	must(t, err)
	defer c.Close()
	if v, err := c.Check(t.Context(), client.Page{URL: "a", Body: []byte("words of a")}); err != nil || v.Status != client.New {
		t.Error(v, err)
	}

	_, expired := startTLS(t, authority, time.Now().Add(-time.Minute))
	plain := startServe(t, freeAddress(t), "-index", filepath.Join(t.TempDir(), "ix"))
	named, old := authority.known(), authority.known()
	named.ServerName, old.MinVersion, old.MaxVersion = "example.com", tls.VersionTLS10, tls.VersionTLS11
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
		{"another authority", address, other.known(), "certificate signed by unknown authority"},
		{"the authorities of the machine", address, nil, "certificate signed by unknown authority"},
		{"another name", address, named, "not example.com"},
		{"an old version", address, old, "protocol version not supported"},
		{"an expired certificate", expired, authority.known(), "expired"},
		{"HTTP to the port of TLS", strings.Replace(address, "https:", "http:", 1), nil, "HTTP request to an HTTPS server"},
		{"TLS to the port of HTTP", strings.Replace(plain.address, "http:", "https:", 1), authority.known(), "HTTP response to HTTPS client"},
		{"no HTTP at all", "http://" + silent.Addr().String(), nil, "malformed HTTP response"},
	} {
		begun := time.Now()
		opened, err := client.Open(c.address, &client.Options{TLS: c.known, RetryFor: time.Minute})
		if err == nil || !strings.Contains(err.Error(), c.says) || opened != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		var unknown *tls.CertificateVerificationError
		if strings.Contains(c.says, "certificate") && !errors.As(err, &unknown) {
			t.Errorf("%s: %T", c.what, err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: it was told after %v", c.what, took)
		}
	}
	if code := server.end(syscall.SIGTERM); code != exitDone {
		t.Errorf("exit code %d: %s", code, server.said)
	}
}
