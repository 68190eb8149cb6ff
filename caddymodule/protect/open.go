package protect

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
)

// Requests that last (WebSockets, event streams, long answers, uploads) are judged again when their credential may have
// ended, or the rules decide otherwise by the time of day. Package recheck knows when.

// young is the age of a request before it is taken up. What was revoked meanwhile is found then.
const young = 50 * time.Millisecond

// recheckEvery bounds how long a request stays open whose credential cannot be looked up, or not be watched, and how
// soon a new configuration counts for it.
const recheckEvery = 4 * time.Second

// youth returns the age of a request before it is taken up. A server elsewhere is not asked about it sooner than it
// would be asked again.
func (p *Protect) youth() time.Duration {
	if p.remote != nil {
		return p.recheck
	}
	return young
}

type openEntry = recheck.Entry[credential, openBasis]

// openBasis is the basis of the verdict about an open request, besides the rules of its site and the time.
type openBasis struct {
	who     *token.Introspection
	granted bool         // a grant lets the person pass, which is asked for requests that it has let in
	book    *policy.Book // the policies that the site names and that are not in the Caddyfile
}

// observer is an authority that knows what its answers rest on. *authz.Server is one. Others are asked every few
// seconds.
type observer interface {
	Observe(ctx context.Context, token string) (*token.Introspection, recheck.Basis, error)
	ObserveSite(ctx context.Context, origin, token string) (*token.Introspection, recheck.Basis, error)
	// KeysVersion is another one when tokens could have ended with a signing key.
	KeysVersion() uint64
}

// openRequests returns the list of the requests that last.
func (p *Protect) openRequests() *recheck.List[credential, openBasis] {
	return recheck.New(recheck.Config[credential, openBasis]{
		Ask: p.observe, Changed: p.situation, Now: p.now,
		After: p.after, Every: p.recheck,
	})
}

// observe looks the credential of a request up that has passed, and the grant and the policies that have let it in.
func (p *Protect) observe(ctx context.Context, c credential) (s openBasis, on recheck.Basis, err error) {
	in, err := p.enter(ctx)
	if err != nil {
		return s, on, err
	}
	defer in.Leave()
	s.who, on, err = c.observe(ctx, in.Authority)
	if err == nil && p.binder != nil && in.Policies != nil {
		var also recheck.Basis
		s.book, also, err = in.Policies.Current(ctx)
		on = on.And(also)
	}
	if err != nil || !c.granted || s.who == nil || s.who.Person == nil || in.Access == nil {
		return s, on, err
	}
	granted, also, err := in.Access.Holds(ctx, s.who.Subject, c.site.origin)
	s.granted = granted
	return s, on.And(also), err
}

// observe is recheck, and returns what the answer rests on, if the authority knows.
func (c credential) observe(ctx context.Context, from authority) (*token.Introspection, recheck.Basis, error) {
	auth, ok := from.(observer)
	switch {
	case c.token == "": // of a robot, whose signature counts once
		return new(token.Introspection), recheck.Basis{}, nil
	case !ok:
		who, err := c.recheck(ctx, from)
		return who, recheck.Basis{}, err
	case c.site == nil:
		who, on, err := auth.Observe(ctx, c.token)
		return c.here(who), on, err
	}
	return auth.ObserveSite(ctx, c.site.origin, c.token)
}

// situation are the conditions for open requests besides their credentials.
type situation struct {
	authority authority // another one after a reload
	keys      uint64
}

// situation returns an error when open requests have to end: no one can be asked about them, or the site asks for
// something else since a reload.
func (p *Protect) situation(ctx context.Context) (any, error) {
	in, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer in.Leave()
	if in.HasRules == nil || !in.HasRules(p.fingerprint) {
		return nil, errOtherRules
	}
	now := situation{authority: in.Authority}
	if auth, ok := in.Authority.(observer); ok {
		now.keys = auth.KeysVersion()
	}
	return now, nil
}

var (
	errNoLonger   = errors.New("the token or session is no longer valid here")
	errOtherRules = errors.New("the site has other rules by now")
)

// rulesText returns all that decides about a request at this site, for comparison with another configuration. It is
// called before matchers are loaded, which empties their fields.
func (p *Protect) rulesText(rules *policy.Policy, matchers []byte) string {
	text, err := json.Marshal([]any{
		p.Scopes, p.Groups, p.Partitions, p.Level, p.Audience, p.Clients, p.Tokens, p.Login, p.Origins, p.Sites, p.Public, p.Need, p.Preflight,
		p.Session, p.RequestAccess, p.Accept, p.Introspect, p.reach, p.assured, rules.Text(), string(matchers), p.laterPolicies(), p.MCP,
	})
	if err != nil {
		return err.Error() // of Introspect alone
	}
	return string(text)
}

// takeUp adds a request that has lasted to the list.
func (g *requestState) takeUp() {
	entry := g.protect.opened.Add(g.credential, g)
	g.mu.Lock()
	over := g.over
	g.entry = entry
	g.mu.Unlock()
	if over {
		entry.Leave()
	}
}

// finish is called when the handler returns.
func (g *requestState) finish() {
	g.retract()
	g.mu.Lock()
	entry := g.entry
	g.over = true
	g.mu.Unlock()
	if entry != nil {
		entry.Leave()
	}
}

// Judge implements recheck.Open.
func (g *requestState) Judge(s openBasis) (ok bool, next time.Time) {
	p, who, browser := g.protect, s.who, g.credential.site != nil
	rules, ok := g.rulesBy(s.book)
	if !ok {
		return false, next
	}
	if v, _ := p.decide(rules, who, browser); v != allowed && !g.stillGranted(rules, s, v) {
		return false, next
	}
	if !hasScopes(who, g.needs) {
		return false, next
	}
	facts := p.factsOf(who, browser, p.now())
	next = policy.Sooner(p.Need.Changes(facts), rules.Changes(facts))
	if browser && p.session > 0 {
		next = policy.Sooner(next, policy.After(facts.Now, who.AuthTime.Add(p.session)))
	}
	return true, next
}

// End implements recheck.Open.
func (g *requestState) End() {
	g.hangUp()
	if g.cancel != nil {
		g.cancel() // ends the upstream's side, and the streams that have no connection of their own
	}
	g.protect.log.Info("open connection ended", zap.NamedError("reason", errNoLonger)) // thousands can end at once
}

var _ observer = (*authz.Server)(nil)
