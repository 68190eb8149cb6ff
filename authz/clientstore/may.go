package clientstore

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// ScopesFor returns what a client asks for with the scope parameter of f in a grant: its default scopes and those of
// the sites that it wants a token for when it names none. (docs/decisions/authorization.md#scopes) May says whether it
// is allowed them.
func (r *Registry) ScopesFor(c *client.Client, f oauth.Form, grant string) ([]string, error) {
	asked, err := client.ParseScope(f.Get("scope"))
	if err != nil {
		return nil, oauth.InvalidScope(err, "scope is malformed")
	}
	if len(asked) > 0 {
		return r.withoutTools(c, asked, f.All("resource")), nil
	}
	if f.Has(detailsParam) {
		return c.DefaultScopes, nil // RFC 9396 3: they can say it all
	}
	return r.DefaultScopes(c, f.All("resource"), grant)
}

// DefaultScopes returns the scopes of a client that names none in a grant: its own, and those of the sites that it
// wants a token for, as far as it is allowed them, unless its own have some of those already. Without any, the request
// is refused, for its resource if that is not one of the client's.
func (r *Registry) DefaultScopes(c *client.Client, resources []string, grant string) ([]string, error) {
	out := slices.Clone(c.DefaultScopes)
	for _, site := range r.named(c, resources) {
		if slices.ContainsFunc(c.DefaultScopes, func(name string) bool { return slices.Contains(site.Scopes, name) }) {
			continue
		}
		for _, name := range site.First {
			if c.HasScope(name) && !slices.Contains(out, name) && !(isOwn(grant) && r.needsPerson(name)) {
				out = append(out, name)
			}
		}
	}
	switch own := c.OwnResources(resources); {
	case len(out) > 0:
		return out, nil
	case !c.MayAsk(own):
		return nil, oauth.InvalidResource(refusedResource(c, own)) // RFC 8707 2
	default:
		return nil, oauth.InvalidScope(nil, "no scope was asked and the client has no default")
	}
}

// withoutTools leaves out the scopes of tools that a client is not allowed, if it asks for others too: the challenge of
// their site names them to every client.
func (r *Registry) withoutTools(c *client.Client, asked, resources []string) []string {
	sites := r.named(c, resources)
	out := slices.DeleteFunc(slices.Clone(asked), func(name string) bool {
		return !c.HasScope(name) && slices.ContainsFunc(sites, func(site *client.Resource) bool { return slices.Contains(site.Tools, name) })
	})
	if len(out) == 0 {
		return asked
	}
	return out
}

// named returns the sites that a client names as resources.
func (r *Registry) named(c *client.Client, resources []string) (out []*client.Resource) {
	for _, resource := range c.OwnResources(resources) {
		for i := range r.resources {
			if client.HasResource([]string{r.resources[i].URI}, resource) {
				out = append(out, &r.resources[i])
			}
		}
	}
	return out
}

// isOwn reports whether tokens of a grant are those of the client itself, and not of a person.
func isOwn(grant string) bool {
	return grant == client.GrantClientCredentials || grant == client.GrantJWTBearer
}

// needsPerson reports whether a scope asks for a level or an assured identity, which only persons have.
func (r *Registry) needsPerson(scope string) bool {
	return r.scopes[scope].Level > 0 || r.scopes[scope].Assurance > 0
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
func (r *Registry) StillGiven(c *client.Client, scope []string, person *authn.Subject, now time.Time) []string {
	return r.Assured(c.StillAllowed(scope), person, now)
}

// Assured returns those of the scopes for which the identity of a person is assured well enough. nil: a client, which
// has no identity of that kind.
func (r *Registry) Assured(scope []string, person *authn.Subject, now time.Time) []string {
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
func (r *Registry) StillClaimed(c *client.Client, claims []string, person *authn.Subject, now time.Time) []string {
	claims = c.AllowedClaims(claims)
	return slices.DeleteFunc(claims, func(name string) bool { return len(r.Assured([]string{client.ScopeOfClaim(name)}, person, now)) == 0 })
}

// Permission is a permission that a client asks for. An empty member asks for nothing.
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
	// AssertTo is the issuer that an identity assertion is for.
	AssertTo string
	// Domain is the trust domain of a transaction token, in place of a token of From. From "": of a transaction token.
	Domain string
}

// ErrExchange is the cause of a refused exchange of tokens.
var ErrExchange = denial.New(denial.ExchangeRefused, "the client may not exchange tokens of that client, or not for that audience")

// ErrProvider is the cause of a refused identity provider.
var ErrProvider = denial.New(denial.ProviderNotOffered, "unable to determine identity provider")

var errNoProof = denial.New(denial.ProofMissing, "the client must prove possession of a key, and the request has no DPoP proof")

// May is the one place that says whether a client is allowed a grant, scopes, an identity provider and resources. Every
// request for a token or code passes here.
func (r *Registry) May(c *client.Client, a Permission) error {
	if c.Disabled {
		return oauth.UnauthorizedClient(errDisabled, "the client is disabled")
	}
	if a.Grant != "" && !c.HasGrant(a.Grant) {
		return oauth.UnauthorizedClient(nil, "the client may not use the grant "+oauth.Quoted(a.Grant)) // RFC 6749 5.2
	}
	if a.Unbound && c.DPoPRequired { // RFC 9449 5.2
		return oauth.InvalidProof(errNoProof, "a DPoP proof is required")
	}
	for _, name := range a.Scope {
		if !c.HasScope(name) {
			return oauth.InvalidScope(nil,
				"the scope "+oauth.Quoted(name)+" is unknown or not allowed to the client") // one is enough for the whole request
		}
		if isOwn(a.Grant) && r.needsPerson(name) {
			return oauth.InvalidScope(nil, "the scope "+oauth.Quoted(name)+" needs a person")
		}
	}
	if a.Provider != "" && !slices.Contains(r.Usable(c), a.Provider) {
		return oauth.AccessDenied(ErrProvider)
	}
	if !c.MayAsk(a.Resources) {
		return oauth.InvalidResource(refusedResource(c, a.Resources)) // RFC 8707 2
	}
	if err := r.mayDetails(c, a); err != nil {
		return err
	}
	if a.AssertTo != "" && c.MayAssert(a.AssertTo) == nil {
		return oauth.InvalidTarget(ErrExchange, "the authorization server "+oauth.Quoted(a.AssertTo)+" is unknown or not allowed to the client")
	}
	if a.Domain != "" {
		if !c.MayTransact(a.Domain, a.From) {
			return oauth.InvalidTarget(ErrExchange, refusedDomain(c, a))
		}
		return nil
	}
	if a.From != "" && !c.MayExchange(a.From, a.To) {
		return oauth.InvalidTarget(ErrExchange, refusedExchange(c, a)) // RFC 8693 2.2.2
	}
	return nil
}

// MayPerson is the one place that says whether a person is allowed to use a client: nil if so, otherwise a
// *denial.GroupError. Every code and token of a person passes here when it is given, and each time that it is used.
func (r *Registry) MayPerson(c *client.Client, person *authn.Subject) error {
	if c.Admits(person.Groups) {
		return nil
	}
	return &denial.GroupError{Wanted: c.Groups, Has: person.Groups}
}

// refusedExchange says what the client may not exchange. It does not name the client of the token.
func refusedExchange(c *client.Client, a Permission) string {
	for _, one := range a.To {
		if c.Exchange == nil || !client.HasResource(c.Exchange.To, one) {
			return "the audience " + oauth.Quoted(one) + " is unknown or not allowed to the client"
		}
	}
	return "the client may not exchange tokens of the client that has got this one"
}

// refusedDomain says why the client gets no transaction token. It does not name the client of its token.
func refusedDomain(c *client.Client, a Permission) string {
	if !c.MayTransact(a.Domain, "") {
		return "the trust domain " + oauth.Quoted(a.Domain) + " is unknown or not allowed to the client"
	}
	return "the client may not exchange tokens of the client that has got this one"
}

// refusedResource returns the first of the resources that a client cannot ask for.
func refusedResource(c *client.Client, resources []string) string {
	for _, one := range resources {
		if !c.MayAsk([]string{one}) {
			return one
		}
	}
	return ""
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
