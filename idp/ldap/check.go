package ldap

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Check implements idp.Checker: each server is reached, and the account that searches reads the base.
func (p *Provider) Check(ctx context.Context) (steps idp.Steps) {
	for _, s := range p.pool.servers {
		p.checkServer(ctx, &steps, s)
	}
	return steps
}

func (p *Provider) checkServer(ctx context.Context, steps *idp.Steps, s *server) {
	c, err := p.pool.dial(ctx, s)
	if err != nil {
		steps.Fail("server "+s.url, err, "")
		return
	}
	defer c.close()
	state, encrypted := c.ldap.TLSConnectionState()
	if encrypted && len(state.PeerCertificates) > 0 {
		steps.OK("server "+s.url, "answers, encrypted")
		steps.Ends("certificate of "+s.url, state.PeerCertificates[0], p.env.Now())
	} else {
		steps.OK("server "+s.url, "answers, on this machine")
	}
	if p.cfg.BindDN == "" {
		steps.OK("account", "none: people bind by themselves, so only a sign-in shows whether base and template are right")
		return
	}
	if err := p.asService(ctx, c); err != nil {
		steps.Fail("account at "+s.url, err, "compare bind with the DN and the password of the account in the directory")
		return
	}
	steps.OK("account at "+s.url, "signed in")
	found, _, err := c.search(ctx, question{base: p.cfg.Base, entry: true, filter: "(objectClass=*)", attributes: []string{"1.1"}, most: 1})
	if err == nil && len(found) == 0 {
		err = errors.New("the account of bind cannot read it")
	}
	if err != nil {
		steps.Fail("base at "+s.url, explained(err), "look at base, and at what the account can read")
		return
	}
	steps.OK("base at "+s.url, "%s is there", p.cfg.Base)
}
