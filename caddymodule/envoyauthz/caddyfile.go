package envoyauthz

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// Read reads
//
//	ext_authz <address> {
//		tls       <certificate> <key>
//		client_ca <file>
//	}
func Read(d *caddyfile.Dispenser) (*Server, error) {
	s, start := new(Server), d.Token()
	if err := caddyfileutil.ReadName(d, &s.Address, checkAddress); err != nil {
		return nil, err
	}
	err := caddyfileutil.ReadBlock(d, "ext_authz", &reference.ExtAuthz, caddyfileutil.Subdirectives{
		"tls": func(d *caddyfile.Dispenser) error {
			pair, err := caddyfileutil.ReadPair(d, "a certificate and its key, as in: tls /etc/gatehouse/envoy.crt /etc/gatehouse/envoy.key")
			if err == nil {
				s.Certificate, s.Key = pair[0], pair[1]
			}
			return err
		},
		"client_ca": caddyfileutil.Text(&s.ClientCA),
	})
	if err != nil {
		return nil, err
	}
	if !caddyfileutil.HasPlaceholder(s.Address) {
		if err := s.consistent(); err != nil {
			return nil, caddyfileutil.At(start, fmt.Errorf("ext_authz %s: %w", s.Address, err))
		}
	}
	return s, nil
}
