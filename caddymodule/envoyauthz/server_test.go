package envoyauthz_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/gatehouse-id/gatehouse/caddymodule/envoyauthz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.file, _ = a.issue("authority")
	return a
}

// issue writes a certificate with its key.
func (a *authority) issue(name string) (certificate, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: a.cert == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.cert == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
		a.key = private
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(suffix, kind string, der []byte) string {
		file := filepath.Join(a.dir, name+suffix)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return file
	}
	return write(".crt", "CERTIFICATE", der), write(".key", "PRIVATE KEY", keyDER)
}

// client returns credentials that trust this authority, with a certificate of another one or none.
func (a *authority) client(from *authority) credentials.TransportCredentials {
	a.t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.cert)
	if from != nil {
		certificate, key := from.issue("client")
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(c)
}

// TestOnlyClientsWithACertificateAsk is about an attacker in the network, who would learn from the listener what only
// Envoy is told.
func TestOnlyClientsWithACertificateAsk(t *testing.T) {
	t.Parallel()
	t.Run("attack 373: a client without the certificate of Envoy", func(t *testing.T) {
		t.Parallel()
		ours, other := newAuthority(t), newAuthority(t)
		certificate, key := ours.issue("server")
		f := &fake{decide: lets}
		s := &envoyauthz.Server{Address: "127.0.0.1:0", Certificate: certificate, Key: key, ClientCA: ours.file}
		at := serve(t, s, f)
		if _, err := dial(t, at, ours.client(ours)).Check(t.Context(), request()); err != nil {
			t.Errorf("Envoy with its certificate: %v", err)
		}
		f.take()
		for name, creds := range map[string]credentials.TransportCredentials{
			"without a certificate": ours.client(nil), "with a certificate of another authority": ours.client(other), "without TLS": nil,
		} {
			if _, err := dial(t, at, creds).Check(t.Context(), request()); grpcstatus.Code(err) != codes.Unavailable ||
				len(f.take()) > 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestRenewedCertificateIsServed: certificates are replaced every few weeks, and no one reloads for that.
func TestRenewedCertificateIsServed(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	certificate, key := a.issue("server")
	s := &envoyauthz.Server{Address: "127.0.0.1:0", Certificate: certificate, Key: key}
	at := serve(t, s, &fake{decide: lets})
	serial := func() string {
		dialer := &tls.Dialer{Config: &tls.Config{ //nolint:gosec // only looked at
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
			NextProtos: []string{"h2"},
		}}
		found, err := dialer.DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer found.Close()
		return found.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String() //nolint:forcetypeassert // of a tls.Dialer
	}
	first := serial()
	a.issue("server")
	if err := os.Chtimes(certificate, time.Now(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if serial() == first {
		t.Error("the old certificate is served after the files have been replaced")
	}
	second := serial()
	if err := os.WriteFile(certificate, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial() != second {
		t.Error("the certificate at hand is not served while the file is being written")
	}
}

// TestReloadLosesNoCheck: the next configuration listens before the last one stops, and what is under way is answered.
func TestReloadLosesNoCheck(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()

	begun, finish := make(chan struct{}), make(chan struct{})
	first := &envoyauthz.Server{Address: address}
	serve(t, first, &fake{decide: func(q forwardauth.Question) (forwardauth.Answer, error) {
		close(begun)
		<-finish
		return lets(q)
	}})
	conn := connect(t, address, nil)
	envoy := authv3.NewAuthorizationClient(conn)
	answered := make(chan error, 1)
	go func() {
		_, err := envoy.Check(t.Context(), request())
		answered <- err
	}()
	<-begun
	second := &envoyauthz.Server{Address: address}
	serve(t, second, &fake{decide: func(forwardauth.Question) (forwardauth.Answer, error) { return forwardauth.Answer{Status: 403}, nil }})
	stopped := make(chan struct{})
	go func() { first.Stop(); close(stopped) }()
	if !conn.WaitForStateChange(t.Context(), connectivity.Ready) { // it is told to go once the first no longer accepts
		t.Fatal("Envoy is not told that the configuration ends")
	}
	for range 20 { // new connections are those of the new configuration, once the old one no longer accepts
		res, err := dial(t, address, nil).Check(t.Context(), request())
		if err != nil {
			t.Fatalf("a check during the reload: %v", err)
		}
		if res.GetDeniedResponse() == nil {
			t.Fatal("a new connection was answered by the configuration that ends")
		}
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Errorf("the check under way: %v", err)
	}
	<-stopped
	if res, err := envoy.Check(t.Context(), request()); err != nil || res.GetDeniedResponse() == nil {
		t.Errorf("the same Envoy after the reload: %v, %v", res, err)
	}
	second.Stop()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the socket is open after the last server has stopped")
	}
}

func TestWhereItListens(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	certificate, key := a.issue("server")
	for _, tt := range []struct {
		name string
		s    *envoyauthz.Server
		want string
	}{
		{"loopback", &envoyauthz.Server{Address: "127.0.0.1:9191"}, ""},
		{"loopback by name", &envoyauthz.Server{Address: "localhost:9191"}, ""},
		{"IPv6 loopback", &envoyauthz.Server{Address: "[::1]:9191"}, ""},
		{"everywhere in plain text", &envoyauthz.Server{Address: ":9191"}, "on a loopback address only"},
		{"a network in plain text", &envoyauthz.Server{Address: "10.0.0.1:9191"}, "on a loopback address only"},
		{"a name that is no loopback", &envoyauthz.Server{Address: "localhost.example.com:9191"}, "on a loopback address only"},
		{"everywhere without client_ca", &envoyauthz.Server{Address: ":9191", Certificate: certificate, Key: key}, "client_ca is missing"},
		{"everywhere with client_ca", &envoyauthz.Server{Address: ":9191", Certificate: certificate, Key: key, ClientCA: a.file}, ""},
		{"no key", &envoyauthz.Server{Address: "127.0.0.1:9191", Certificate: certificate}, "a certificate and its key"},
		{"client_ca alone", &envoyauthz.Server{Address: "127.0.0.1:9191", ClientCA: a.file}, "client_ca needs tls"},
		{"no port", &envoyauthz.Server{Address: "127.0.0.1"}, "is not host and port"},
		{"a wrong port", &envoyauthz.Server{Address: "127.0.0.1:http"}, "is not host and port"},
	} {
		err := tt.s.Provision(caddyfileutil.NewVerbatimResolver(), zap.NewNop())
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestFilesOfEnvoy: a file that cannot be used does not keep the server from starting. Envoy alone is refused: without
// the authorities, each certificate is.
func TestFilesOfEnvoy(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	certificate, key := a.issue("server")
	for _, tt := range []struct {
		name string
		s    *envoyauthz.Server
		want string
	}{
		{
			"another key", &envoyauthz.Server{Address: "127.0.0.1:9191", Certificate: certificate, Key: filepath.Join(a.dir, "authority.key")},
			"private key does not match",
		},
		{"no file", &envoyauthz.Server{Address: "127.0.0.1:9191", Certificate: "none.crt", Key: key}, "none.crt"},
		{
			"no certificate in client_ca", &envoyauthz.Server{Address: "127.0.0.1:0", Certificate: certificate, Key: key, ClientCA: key},
			"holds no certificate",
		},
	} {
		res := caddyfileutil.NewVerbatimResolver()
		if err := tt.s.Provision(res, zap.NewNop()); err != nil {
			t.Errorf("%s: %v, want none", tt.name, err)
			continue
		}
		if all := res.Faults(); len(all) != 1 || !strings.Contains(all[0].Reason, tt.want) {
			t.Errorf("%s: faults = %v, want one with %q", tt.name, all, tt.want)
		}
		if tt.s.ClientCA == "" {
			continue
		}
		at, err := tt.s.Start(&fake{decide: lets})
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []*authority{nil, a} {
			if _, err := dial(t, at.String(), a.client(from)).Check(t.Context(), request()); grpcstatus.Code(err) != codes.Unavailable {
				t.Errorf("%s: a client, with a certificate: %t: %v", tt.name, from != nil, err)
			}
		}
		tt.s.Stop()
	}
}

// empty answers without looking.
type empty struct {
	authv3.UnimplementedAuthorizationServer
}

func (empty) Check(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return &authv3.CheckResponse{HttpResponse: &authv3.CheckResponse_OkResponse{}}, nil
}

// BenchmarkCheck measures what reading a check and writing the answer cost above a handler that does nothing, over one
// connection. The decision is that of package forwardauth.
func BenchmarkCheck(b *testing.B) {
	bare := grpc.NewServer()
	authv3.RegisterAuthorizationServer(bare, empty{})
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go bare.Serve(l) //nolint:errcheck // until Stop
	b.Cleanup(bare.Stop)
	at := serve(b, &envoyauthz.Server{Address: "127.0.0.1:0"}, &forgetful{fake{decide: lets}})
	for name, address := range map[string]string{"empty": l.Addr().String(), "check": at} {
		b.Run(name, func(b *testing.B) {
			envoy, in := dial(b, address, nil), request()
			before := cpu(b)
			defer func() { b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op") }()
			for b.Loop() {
				if _, err := envoy.Check(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cpu is the processor time that the process has used, in nanoseconds.
func cpu(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// forgetful keeps nothing.
type forgetful struct{ fake }

func (f *forgetful) Ask(_ context.Context, q forwardauth.Question) (forwardauth.Answer, error) {
	return f.decide(q)
}
