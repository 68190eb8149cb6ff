package protect

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
)

// remote is an authority whose bearer tokens are those of an authorization server elsewhere.
type remote struct {
	authority

	server *introspect.Server
}

// earlierAnswer is the earlier response of a server about the token of this request, so a further protect does not ask
// again: the server may count each question as a use. It prints as "[redacted]".
type earlierAnswer struct {
	server *introspect.Server
	token  string
	answer token.Introspection
}

func (*earlierAnswer) String() string { return "[redacted]" }

const askedVar = "gatehouse.asked"

// Introspect asks the server, once a request.
func (r remote) Introspect(ctx context.Context, text string) (*token.Introspection, error) {
	if a, ok := caddyhttp.GetVar(ctx, askedVar).(*earlierAnswer); ok && a.token == text && a.server.Same(r.server) {
		in := a.answer
		return &in, nil
	}
	in, err := r.server.Introspect(ctx, text)
	if err != nil {
		return nil, err
	}
	caddyhttp.SetVar(ctx, askedVar, &earlierAnswer{r.server, text, *in})
	return in, nil
}

// Recheck asks again for a request that has been let in already.
func (r remote) Recheck(ctx context.Context, text string) (*token.Introspection, error) {
	return r.server.Recheck(ctx, text)
}

// Use is Introspect: the server has counted the use when it was asked.
func (r remote) Use(ctx context.Context, text string) (*token.Introspection, error) {
	return r.Introspect(ctx, text)
}

// openRemote makes the handler ask the server that introspect names about bearer tokens, in place of the local one.
func (p *Protect) openRemote() error {
	if p.Introspect == nil {
		return nil
	}
	server, err := p.Introspect.Open(p.log, p.now, p.random)
	if err != nil {
		return err
	}
	local := p.enter
	p.remote, p.enter = server, func(ctx context.Context) (Entrance, error) {
		in, err := local(ctx)
		if err == nil {
			in.Authority = remote{in.Authority, server}
		}
		return in, err
	}
	return nil
}

// provisionRemote makes the server known to metrics and `caddy gatehouse check`.
func (p *Protect) provisionRemote(ctx caddy.Context, a App) error {
	if p.remote == nil {
		return nil
	}
	ctx.OnCancel(p.remote.Close)
	a.Probe(p.probe)
	return introspect.Register(ctx.GetMetricsRegistry())
}

func (p *Protect) readIntrospect(d *caddyfile.Dispenser) error {
	p.Introspect = new(introspect.Options)
	return p.Introspect.UnmarshalCaddyfile(d)
}

// consistentRemote checks rules between introspect and other options.
func (p *Protect) consistentRemote() error {
	switch {
	case p.Introspect == nil:
		return nil
	case p.Login:
		return errors.New("introspect and login exclude each other: people sign in at the issuer of this configuration, and introspect accepts the tokens of another server. " +
			"Put browsers and API clients on two sites, or on two paths with a matcher each")
	}
	return nil
}

// remoteFindings reports uses of introspect that are allowed and probably not meant.
func (p *Protect) remoteFindings(warn func(option, reason, fix string)) {
	if p.Introspect == nil {
		return
	}
	if p.Introspect.Asks(p.issuer) {
		warn("introspect", "the server that it asks is the issuer of this configuration, whose tokens protect knows without asking",
			"remove `introspect`")
	}
	if p.Introspect.LongCache() {
		warn("introspect cache", "revoked tokens pass for longer than a minute", "a cache of 5s spares the server nearly as many requests")
	}
	if len(p.Audience) == 0 && len(p.Scopes) == 0 && p.Need.IsEmpty() && p.fixed.rules.Empty() && p.binder == nil {
		warn("introspect", "every token of the authorization server passes, also those that it has issued for other applications",
			"name the `audience` or `scopes` that the tokens must have")
	}
}

// probe finds out for `caddy gatehouse check` whether the server answers.
func (p *Protect) probe(ctx context.Context) *diagnostic.Finding {
	if err := p.remote.Probe(ctx); err != nil {
		return &diagnostic.Finding{
			Severity: diagnostic.Warning, Place: p.Places.Of("protect: introspect"),
			Reason: "protect: the server of introspect cannot be asked: " + err.Error(),
			Fix:    "look at the address, the client and its secret: until it answers, requests with a token get 503", About: p.label(),
		}
	}
	return nil
}

var _ authority = remote{}
