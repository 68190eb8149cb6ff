package protect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	upstreams "github.com/gatehouse-id/gatehouse/authz/exchange"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// exchanger gives a token for an upstream in place of the client's. *authz.Server is one.
type exchanger interface {
	UpstreamToken(ctx context.Context, token, audience, site string, from audit.Origin) (string, error)
}

// exchangeable reports whether every request that passes has a token of this issuer that can be exchanged.
func (p *Protect) exchangeable() error {
	switch {
	case p.UpstreamToken == "":
		return nil
	case p.Login:
		return errors.New("upstream_token and login exclude each other: a browser session has no token to exchange. Put them on two sites, or on two paths with a matcher each")
	case len(p.Accept) > 0:
		return errors.New("upstream_token: app passwords cannot be exchanged: remove accept")
	case p.Introspect != nil:
		return errors.New("upstream_token: tokens of another server cannot be exchanged here: remove introspect")
	case len(p.Sites) == 0:
		return errors.New("upstream_token: the site has no address with a host, and the token says which site acts: give the site one, such as https://api.example.com")
	}
	return nil
}

func checkTarget(s string) error {
	if len(s) > 512 || strings.ContainsAny(s, " \t") {
		return fmt.Errorf("%q is not an audience such as https://stock.example.com", s)
	}
	return nil
}

// exchange returns the token that the upstream gets in place of the client's. "": the upstream gets none from here.
// (docs/decisions/gateway.md#upstream-tokens)
func (p *Protect) exchange(g *requestState) (string, *refusal) {
	if p.UpstreamToken == "" {
		return "", nil
	}
	if g.entrance.Exchange == nil {
		return "", cannotTell(errors.New("nothing here exchanges tokens"))
	}
	text, err := g.entrance.Exchange.UpstreamToken(g.r.Context(), g.credential.token, p.UpstreamToken, p.Sites[0], p.origin(g.r))
	switch {
	case errors.Is(err, upstreams.ErrLimited):
		return "", &refusal{
			reason: refusals.SubjectToken, status: http.StatusForbidden, code: "insufficient_scope",
			text: "the token has a usage limit and cannot be exchanged for the upstream",
		}
	case errors.Is(err, upstreams.ErrEnded):
		return "", &refusal{
			reason: refusals.TokenInactive, status: http.StatusUnauthorized, code: "invalid_token",
			text: "the access token is unknown, expired, revoked or used up",
		}
	case err != nil:
		return "", cannotTell(err)
	}
	return text, nil
}
