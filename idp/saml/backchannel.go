package saml

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// errOtherServer says that a connection of the back channel leads to someone else.
var errOtherServer = errors.New("the server shows another certificate than the one that server_certificate names")

// channel returns the client for requests to an address of the provider's metadata. The address must be public, unless
// its host is the one that the administrator has configured for the metadata. It shows our certificate and knows that
// of the server, where they are configured.
func (p *Provider) channel(ctx context.Context, to *url.URL) (*http.Client, error) {
	client := p.env.Checked
	if written, err := url.Parse(p.cfg.Metadata); err == nil && isRemote(p.cfg.Metadata) && written.Host == to.Host {
		client = p.env.Client
	}
	if p.cfg.ClientKey == "" && p.cfg.ServerCertificate == "" {
		return client, nil
	}
	if to.Scheme != "https" {
		return nil, errors.New("the provider's back channel has no https address, so certificates mean nothing there")
	}
	known, ok := client.Transport.(*http.Transport)
	if !ok {
		return nil, errors.New("the client makes no connections of its own")
	}
	secured, err := p.secured(ctx, to.Hostname())
	if err != nil {
		return nil, err
	}
	transport := known.Clone()
	transport.TLSClientConfig = secured
	transport.DisableKeepAlives = true // a certificate that is replaced counts from the next request on
	own := *client
	own.Transport = transport
	return &own, nil
}

// secured returns how connections of the back channel are made.
func (p *Provider) secured(ctx context.Context, host string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.cfg.ClientKey != "" {
		key, err := p.clientKey(ctx)
		if err != nil {
			return nil, err
		}
		// Shown whichever authorities the server lists: these lists are often wrong, and the provider knows our certificate.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{key.Certificate.Raw}, PrivateKey: key.Signer, Leaf: key.Certificate}, nil
		}
	}
	if p.cfg.ServerCertificate != "" {
		pinned, err := p.env.Certificate(ctx, p.cfg.ServerCertificate)
		if err != nil {
			return nil, err
		}
		cfg.InsecureSkipVerify = true // VerifyConnection is stricter: the system's authorities are not enough
		cfg.VerifyConnection = func(s tls.ConnectionState) error { return checkServer(s.PeerCertificates, pinned, host, p.env.Now()) }
	}
	return cfg, nil
}

// clientKey returns the key pair that authenticates us on the back channel.
func (p *Provider) clientKey(ctx context.Context) (*idp.Key, error) {
	key, err := p.env.KeyPair(ctx, p.cfg.ClientKey)
	if err == nil && key.Certificate == nil {
		err = &idp.UnfitKey{Name: p.cfg.ClientKey, Problem: "has no certificate"}
	}
	return key, err
}

// checkServer accepts the pinned certificate itself, or one for the host that the pinned authority has issued.
func checkServer(chain []*x509.Certificate, pinned *x509.Certificate, host string, now time.Time) error {
	if len(chain) == 0 {
		return errOtherServer
	}
	if chain[0].Equal(pinned) {
		if !isCurrent(pinned, now) {
			return errors.New("the certificate that server_certificate names has expired or is not valid yet")
		}
		return nil
	}
	if !pinned.IsCA {
		return errOtherServer
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(pinned)
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, CurrentTime: now}); err != nil {
		return fmt.Errorf("%w: %w", errOtherServer, err)
	}
	return nil
}

// explained says what the alert of a server means that wants a certificate. With TLS 1.3 the alert comes after the
// handshake, and a request that is written later than the server has gone fails before it is read.
func explained(err error) error {
	err = withoutAddress(err)
	if op := new(net.OpError); errors.As(err, &op) && (op.Op == "remote error" || op.Op == "write") {
		return fmt.Errorf("the provider refuses the connection, as it does where it does not accept the certificate of client_key: %w", err)
	}
	return err
}
