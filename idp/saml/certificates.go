package saml

import (
	"crypto/x509"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Certificates implements idp.Certified.
func (p *Provider) Certificates() []*x509.Certificate {
	p.metadata.mu.Lock()
	defer p.metadata.mu.Unlock()
	if p.metadata.current == nil {
		return nil
	}
	return p.metadata.current.Signing
}

// KeyUses implements idp.KeyUser.
func (p *Provider) KeyUses() (out []idp.KeyUse) {
	for _, name := range names(p.cfg.Sign) {
		out = append(out, idp.KeyUse{Name: name, Use: idp.UseSign})
	}
	for _, name := range names(p.cfg.Decrypt) {
		out = append(out, idp.KeyUse{Name: name, Use: idp.UseDecrypt})
	}
	if p.cfg.ClientKey != "" {
		out = append(out, idp.KeyUse{Name: p.cfg.ClientKey, Use: idp.UseConnect})
	}
	return out
}
