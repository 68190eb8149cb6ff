// Package envoyauthz serves Envoy's external authorization over gRPC (envoy.service.auth.v3) on a listener of its own.
// Package forwardauth decides, as for every other proxy.
package envoyauthz

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

const (
	maxCheck      = 1 << 20          // bytes of a check: more than the headers that Envoy lets in
	drainWait     = 5 * time.Second  // how long checks under way can take once the server stops
	handshakeWait = 10 * time.Second // for TLS and the preface of HTTP/2
)

// Server answers checks.
type Server struct {
	// Where it listens: host and port. Other hosts than those of the loopback need a certificate and client_ca.
	// Required.
	Address string `json:"address,omitempty"`
	// The file of the certificate, in PEM. Default: none, and HTTP/2 without TLS.
	Certificate string `json:"certificate,omitempty"`
	// The file of its key, in PEM. Required with a certificate.
	Key string `json:"key,omitempty"`
	// The file of the authorities, in PEM, of which a client must have a certificate. Default: none.
	ClientCA string `json:"client_ca,omitempty"`

	log    *zap.Logger
	tls    *tls.Config // nil: none
	server *grpc.Server
	at     net.Addr
	ending atomic.Bool
	close  func() error  // of the listener
	served chan struct{} // closed when it no longer accepts
}

// Provision checks the options and reads the files. One that cannot be used is a fault of Envoy alone, which is not
// answered then, and so lets no one in.
func (s *Server) Provision(res *caddyfileutil.Resolver, log *zap.Logger) error {
	s.log = log
	s.Address = res.Plain("ext_authz", s.Address, checkAddress)
	s.Certificate = res.Plain("ext_authz: tls", s.Certificate, nil)
	s.Key = res.Plain("ext_authz: tls", s.Key, nil)
	s.ClientCA = res.Plain("ext_authz: client_ca", s.ClientCA, nil)
	if err := s.consistent(); err != nil {
		res.Fail("ext_authz: %v", err)
	}
	if err := res.Err(); err != nil {
		return fmt.Errorf("gatehouse: %w", err)
	}
	if s.Certificate == "" {
		return nil
	}
	pair := &keyPair{certificate: s.Certificate, key: s.Key}
	if _, err := pair.get(nil); err != nil {
		res.Lack(caddyfileutil.Fault{
			Option: "ext_authz: tls", Reason: fmt.Sprintf("ext_authz: tls: %v: Envoy is not answered until the files are right", err),
			Fix: "put the certificate and its key there, in PEM",
		})
	}
	// Envoy asks with TLS 1.2 unless it is told otherwise.
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get, NextProtos: []string{"h2"}}
	if s.ClientCA == "" {
		return nil
	}
	s.tls.ClientAuth, s.tls.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool() // no certificate is right without the file
	pem, err := os.ReadFile(s.ClientCA)
	if err == nil && !s.tls.ClientCAs.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s holds no certificate in PEM", s.ClientCA)
	}
	if err != nil {
		res.Lack(caddyfileutil.Fault{
			Option: "ext_authz: client_ca", Reason: fmt.Sprintf("ext_authz: client_ca: %v: no certificate of Envoy is accepted", err),
			Fix: "put the certificates of the authorities there, in PEM, and run `caddy reload --force`",
		})
	}
	return nil
}

// checkAddress accepts the address of a listener.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 && port != "0" {
		return fmt.Errorf("%q is not host and port, such as 127.0.0.1:9191", s)
	}
	return nil
}

// consistent refuses a server that people on the network could ask: what it answers holds who someone is, and perhaps a
// signed assertion.
func (s *Server) consistent() error {
	host, _, _ := net.SplitHostPort(s.Address)
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case (s.Certificate == "") != (s.Key == ""):
		return errors.New("tls wants a certificate and its key")
	case s.ClientCA != "" && s.Certificate == "":
		return errors.New("client_ca needs tls")
	case !loopback && s.Certificate == "":
		return fmt.Errorf("without tls it can listen on a loopback address only, such as 127.0.0.1:9191, not on %s", s.Address)
	case !loopback && s.ClientCA == "":
		return fmt.Errorf("client_ca is missing: on %s, which is not a loopback address, only clients with a certificate may ask", s.Address)
	}
	return nil
}

// Start listens and answers, by the decisions of gates. It returns where.
func (s *Server) Start(gates Asker) (net.Addr, error) {
	l, err := listen(s.Address)
	if err != nil {
		return nil, fmt.Errorf("ext_authz: %w", err)
	}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxCheck), grpc.ConnectionTimeout(handshakeWait), grpc.MaxConcurrentStreams(1000), grpc.MaxHeaderListSize(64 << 10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	}
	if s.tls != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.tls)))
	}
	s.server, s.at, s.close, s.served = grpc.NewServer(opts...), l.Addr(), l.Close, make(chan struct{})
	authv3.RegisterAuthorizationServer(s.server, &service{gates: gates, log: s.log})
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); err != nil && !s.ending.Load() {
			s.log.Error("no longer listening", zap.String("address", s.Address), zap.Error(err))
		}
	}()
	return s.at, nil
}

// Stop accepts nothing more, and waits for the checks under way, for a bounded time.
func (s *Server) Stop() {
	if s.server == nil {
		return
	}
	// The server would close a connection that arrives while it is told to stop. So it is told after it has been handed
	// the last one.
	s.ending.Store(true)
	if err := s.close(); err != nil {
		s.log.Error("not closed cleanly", zap.String("address", s.Address), zap.Error(err))
	}
	<-s.served
	timer := time.AfterFunc(drainWait, s.server.Stop)
	defer timer.Stop()
	s.server.GracefulStop()
}

// keyPair is a certificate with its key, read again when its file has changed.
type keyPair struct {
	certificate, key string

	mu   sync.Mutex // guards all below
	read time.Time  // when the file was written that has been read
	pair *tls.Certificate
}

func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.certificate)
	if err == nil && (p.pair == nil || !info.ModTime().Equal(p.read)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(p.certificate, p.key); err == nil {
			p.pair, p.read = &pair, info.ModTime()
		}
	}
	if p.pair == nil {
		return nil, err
	}
	return p.pair, nil // the one at hand goes on while the files are being replaced
}
