package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
)

// AskPassword implements idp.PasswordAsker by the password grant. (RFC 6749 4.3) The person is who the ID token names,
// or userinfo at a server that gives no ID token by this grant.
func (p *Provider) AskPassword(ctx context.Context, c idp.Credentials) (*idp.Identity, error) {
	if c.Username == "" || strings.TrimSpace(c.Password) == "" {
		return nil, idp.ErrCredentials
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	m, err := p.currentMetadata(ctx)
	if err != nil {
		return nil, err
	}
	given, err := p.redeem(ctx, m, url.Values{
		"grant_type": {"password"}, "username": {c.Username}, "password": {c.Password}, "scope": {strings.Join(p.cfg.Scopes, " ")},
	})
	if errors.Is(err, errGrant) { // RFC 6749 5.2
		return nil, idp.ErrCredentials
	}
	if err != nil {
		return nil, fmt.Errorf("token endpoint: %w", err)
	}
	id := &idToken{claims: object{}}
	if given.id != "" {
		if id, err = p.verifyIDToken(ctx, m, given.id, given.access); err != nil {
			return nil, err
		}
	}
	info, err := p.userInfo(ctx, m, given.access, id.subject)
	if err != nil {
		return nil, err
	}
	if id.subject == "" {
		if id.subject, err = info.Text("sub"); err != nil || id.subject == "" || !idp.IsText(id.subject, idp.MaxSubject) {
			return nil, errors.New("neither an ID token nor userinfo names the person: allow the scope openid to the client there")
		}
	}
	who, err := p.identity(id, info, heldData{})
	if err == nil {
		who.Held = nil // nothing is asked for this person again
	}
	return who, err
}
