package registry

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/refusal"
)

// ScopesFor returns what a client asks for with the scope parameter of f: its default scopes when it names none.
// (docs/decisions/authorization.md#scopes) May says whether it is allowed them.
func (r *Registry) ScopesFor(c *client.Client, f oauth.Form) ([]string, error) {
	asked, err := client.ParseScope(f.Get("scope"))
	if err != nil {
		return nil, oauth.InvalidScope(err, "scope is malformed")
	}
	if len(asked) == 0 {
		asked = c.DefaultScopes
	}
	if len(asked) == 0 && f.Has(detailsParam) {
		return nil, nil // RFC 9396 3: they say it all
	}
	if len(asked) == 0 {
		return nil, oauth.InvalidScope(nil, "no scope was asked and the client has no default")
	}
	return asked, nil
}

// ScopeLevel returns the highest authentication level that one of the scopes demands. 0: any.
func (r *Registry) ScopeLevel(scope []string) int {
	level := 0
	for _, name := range scope {
		level = max(level, r.scopes[name].Level)
	}
	return level
}

// ScopeAssurance returns the highest identity assurance level that one of the scopes demands. 0: any.
func (r *Registry) ScopeAssurance(scope []string) int {
	level := 0
	for _, name := range scope {
		level = max(level, r.scopes[name].Assurance)
	}
	return level
}

// StillGiven returns those of the scopes that the client is still allowed, and for which the identity of the person is
// still assured well enough. nil: the client itself. (docs/decisions/events.md#identity-assurance-of-scopes)
func (r *Registry) StillGiven(c *client.Client, scope []string, person *login.Subject, now time.Time) []string {
	return r.Assured(c.StillAllowed(scope), person, now)
}

// Assured returns those of the scopes for which the identity of a person is assured well enough. nil: a client, which
// has no identity of that kind.
func (r *Registry) Assured(scope []string, person *login.Subject, now time.Time) []string {
	if r.ScopeAssurance(scope) == 0 {
		return scope
	}
	is := 0
	if person != nil {
		is = person.Assurance.Level(now)
	}
	return slices.DeleteFunc(slices.Clone(scope), func(name string) bool { return r.scopes[name].Assurance > is })
}

// StillClaimed returns those of the claims that one of the scopes which StillGiven returns could give.
func (r *Registry) StillClaimed(c *client.Client, claims []string, person *login.Subject, now time.Time) []string {
	claims = c.AllowedClaims(claims)
	return slices.DeleteFunc(claims, func(name string) bool { return len(r.Assured([]string{client.ScopeOfClaim(name)}, person, now)) == 0 })
}

// Permission is what a client asks to be allowed. An empty member asks for nothing.
type Permission struct {
	Grant     string
	Scope     []string
	Provider  string
	Resources []string
	// Details are authorization details that DetailsFor has read.
	Details string
	// Unbound says that the access token would be bound to no key.
	Unbound bool
	// From is the client whose token is to be exchanged, for one with the audiences To.
	From string
	To   []string
	// Elsewhere is the issuer that an identity assertion is for.
	Elsewhere string
}

// ErrExchange is the cause of a refused exchange of tokens.
var ErrExchange = refusal.New(refusal.ExchangeRefused, "the client may not exchange tokens of that client, or not for that audience")

// ErrProvider is the cause of a refused identity provider.
var ErrProvider = refusal.New(refusal.ProviderNotOffered, "unable to determine identity provider")

var errNoProof = refusal.New(refusal.ProofMissing, "the client must prove to have a key, and the request has no DPoP proof")

// May is the one place that says whether a client is allowed a grant, scopes, an identity provider and resources. Every
// request for a token or code passes here.
func (r *Registry) May(c *client.Client, a Permission) error {
	if c.Disabled {
		return oauth.UnauthorizedClient(errDisabled, "the client is disabled")
	}
	if a.Grant != "" && !c.HasGrant(a.Grant) {
		return oauth.UnauthorizedClient(nil, "the client may not use this grant type") // RFC 6749 5.2
	}
	if a.Unbound && c.DPoPRequired { // RFC 9449 5.2
		return oauth.InvalidProof(errNoProof, "a DPoP proof is required")
	}
	for _, name := range a.Scope {
		if !c.HasScope(name) {
			return oauth.InvalidScope(nil, "a scope is unknown or not allowed") // one is enough for the whole request
		}
		// Only persons have a level and an identity.
		if (a.Grant == client.GrantClientCredentials || a.Grant == client.GrantJWTBearer) && (r.scopes[name].Level > 0 || r.scopes[name].Assurance > 0) {
			return oauth.InvalidScope(nil, "a scope needs a person")
		}
	}
	if a.Provider != "" && !slices.Contains(r.Usable(c), a.Provider) {
		return oauth.AccessDenied(ErrProvider)
	}
	if !c.MayAsk(a.Resources) {
		return oauth.InvalidTarget(nil) // RFC 8707 2
	}
	if err := r.mayDetails(c, a); err != nil {
		return err
	}
	if a.Elsewhere != "" && c.MayAssert(a.Elsewhere) == nil {
		return oauth.InvalidTarget(ErrExchange)
	}
	if a.From != "" && !c.MayExchange(a.From, a.To) {
		return oauth.InvalidTarget(ErrExchange) // RFC 8693 2.2.2
	}
	return nil
}

// Opens returns the origins of the sites that a client can open with a token of these scopes and resources, in order. A
// site that is one of the resources is left out: people are told of those anyway if the client is a stranger.
func (r *Registry) Opens(c *client.Client, scopes, resources []string) (origins []string) {
	for i := range r.acceptances {
		a := &r.acceptances[i]
		if a.Opens(c, scopes, resources) && !(c.IsStranger() && len(a.Audience) > 0) {
			origins = append(origins, a.Origins...)
		}
	}
	slices.Sort(origins)
	return slices.Compact(origins)
}

// UsageLimit returns how often an access token of these scopes can be used: their lowest limit. 0: unlimited.
// (docs/decisions/tokens.md#usage-limits)
func (r *Registry) UsageLimit(scope []string) int {
	limit := 0
	for _, name := range scope {
		if l := r.scopes[name].UsageLimit; l > 0 && (limit == 0 || l < limit) {
			limit = l
		}
	}
	return limit
}
