package protect

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// A rehearsal runs a hypothetical request through the code that decides about real ones, with a stand-in for the
// authorization server that stores nothing and gives the same answer about every credential.

// Caller is the sender of a rehearsed request, at a certain time.
type Caller struct {
	Who     *token.Introspection // nil: a stranger
	Browser bool                 // signed in at the site, and not by a bearer token
	// AsSession says that rules judge the caller's bearer token like a browser's session, where there is no site.
	AsSession bool
	Now       time.Time
	// Policies are the policies that are not in the Caddyfile. nil: they are not known.
	Policies library
	// Limits are asked and count nothing. nil: nothing is limited.
	Limits *limit.Counters
	// Granted reports whether an operator has granted a person access to a site. nil: no one has.
	Granted func(ctx context.Context, personID, site string) (bool, error)
}

// Verdict is the outcome of a request in a word.
type Verdict string

// The verdicts of a rehearsal.
const (
	Open    Verdict = "public"  // it passes, and the caller was not asked for a credential
	Allow   Verdict = "allow"   // it passes
	SignIn  Verdict = "sign-in" // a sign-in or a valid token could let it pass
	StepUp  Verdict = "step-up" // a stronger sign-in would
	Again   Verdict = "renew"   // a more recent sign-in would
	Wait    Verdict = "wait"    // it passes once the caller has waited
	Deny    Verdict = "deny"    // nothing would, for this caller
	Invalid Verdict = "invalid" // no caller could pass with a request of this form
)

// verdictOf has the verdicts for reasons of refusals. Other reasons are Deny.
var verdictOf = map[refusals.Reason]Verdict{
	refusals.NoCredentials: SignIn, refusals.TokenInactive: SignIn, refusals.SessionEnded: SignIn, refusals.LevelTooLow: StepUp,
	refusals.SignInTooOld: Again, refusals.RateLimited: Wait, refusals.QuotaUsed: Wait,
	refusals.Malformed: Invalid, refusals.TokenInQuery: Invalid, refusals.PathNotCanonical: Invalid, refusals.NotPlain: Invalid,
	refusals.AddressUnknown: Invalid, refusals.MethodNotAllowed: Invalid, refusals.UnknownSite: Invalid,
}

// Rehearsal is the decision of one protect about a request.
type Rehearsal struct {
	Place   string          `json:"place,omitempty"` // of the directive, as file:line
	Verdict Verdict         `json:"verdict"`
	Reason  refusals.Reason `json:"reason,omitempty"` // why it is refused
	Why     string          `json:"why,omitempty"`    // the same in words
	Rules   []policy.Line   `json:"rules,omitempty"`
	// Message is the message of the deciding rule to the person.
	Message string `json:"message,omitempty"`
	// WantedLevel, WantedAssurance and WantedScope are the requirements that the caller does not meet.
	WantedLevel     int      `json:"wanted_level,omitempty"`
	WantedAssurance int      `json:"wanted_assurance,omitempty"`
	WantedScope     []string `json:"wanted_scopes,omitempty"`
	// Limits are those by which the request would be counted.
	Limits []ratelimits.Line `json:"limits,omitempty"`
	// Granted is the site to which an operator has granted access, without which the request would be refused.
	Granted string `json:"granted,omitempty"`
	// Headers are the identity headers that go upstream.
	Headers map[string]string `json:"headers,omitempty"`
}

// Rehearse decides about a hypothetical request as about a real one, and passes it to next if it is allowed. Its
// context must be one that Caddy has prepared.
func (p *Protect) Rehearse(w http.ResponseWriter, r *http.Request, c Caller,
	next func(http.ResponseWriter, *http.Request) error,
) (Rehearsal, error) {
	q := *p
	stand := &standIn{who: c.Who}
	q.enter = func(context.Context) (Entrance, error) {
		in := Entrance{
			Authority: stand, Assertions: stand, Transactions: stand, Exchange: stand, Policies: c.Policies, Limits: c.Limits.Rehearsed(),
			Leave: func() {},
		}
		if c.Granted != nil {
			in.Access = grants(c.Granted)
		}
		return in, nil
	}
	q.log, q.now, q.origin = zap.NewNop(), func() time.Time { return c.Now }, rehearsedOrigin
	q.Shadow, q.asSession = nil, c.AsSession
	out := Rehearsal{Place: p.Place()}
	if p.Login && strings.HasPrefix(original(r).Path, ownPrefix) {
		out.Verdict, out.Why = Open, "it is a page of Gatehouse itself, such as the sign-out"
		return out, nil
	}
	if err := q.addCredential(r, c); err != nil {
		return out, err
	}
	passed := false
	g := &requestState{ResponseWriter: w, protect: &q, r: r}
	err := q.pass(g, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		passed = true
		out.Headers = map[string]string{}
		for name, values := range r.Header {
			if len(values) > 0 && q.guarded.Has(name) {
				out.Headers[name] = strings.Join(values, ", ")
			}
		}
		return next(w, r)
	}))
	if g.metadata {
		out.Verdict, out.Why = Open, "it is the metadata by which MCP clients find the authorization server"
		return out, err
	}
	out.Verdict, out.Reason = verdictOf[g.reason], g.reason
	switch {
	case passed && g.credential.token == "":
		out.Verdict = Open
	case passed:
		if out.Verdict = Allow; g.credential.granted {
			out.Granted, out.Why = g.site.origin, "groups and rules refuse it, but access that an operator has granted lets it pass"
		}
	case out.Verdict == "":
		out.Verdict = Deny
	}
	if !passed {
		f := refusals.Refusal{Reason: g.reason, WantedGroups: q.wantedGroups(g)}
		if g.who != nil && g.who.Person != nil {
			f.Groups = g.who.Person.Groups
		}
		out.Why = f.Why()
		asked := q.demandOf(g)
		if out.Verdict == StepUp || out.Verdict == SignIn {
			out.WantedLevel = asked.level
		}
		if g.reason == refusals.AssuranceTooLow {
			out.WantedAssurance = asked.assurance
			out.Why += "; " + q.assuranceText(g)
		}
		if g.reason == refusals.ScopeMissing {
			out.WantedScope = asked.scopes
		}
	}
	if rule := g.decision.Rule; rule != nil && !passed {
		out.Message = rule.Message
	}
	facts := q.factsOf(c.Who, c.Browser, c.Now)
	if g.credential.token == "" && (passed || g.who == nil) {
		facts.Who = nil // the site has not looked at the caller
	}
	if g.ruling == nil {
		g.ruling = q.fixed
	}
	out.Limits = g.counted.Lines()
	out.Rules = g.ruling.rules.Trace(g.rules, g.selected, g.decision, facts)
	return out, err
}

// rehearsedOrigin returns the server itself as the origin, with the address that the request is said to come from.
func rehearsedOrigin(r *http.Request) audit.Origin {
	out := audit.Self
	out.ClientIP, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return out
}

// addCredential adds the credential of the caller to the request, in the form that this site accepts, unless an earlier
// protect has received it already.
func (p *Protect) addCredential(r *http.Request, c Caller) error {
	if c.Who == nil || caddyhttp.GetVar(r.Context(), arrivalVar) != nil || caddyhttp.GetVar(r.Context(), rehearsedVar) != nil {
		return nil
	}
	kind := secret.AccessToken
	if c.Browser {
		kind = secret.SiteSession
	}
	raw, err := secret.NewToken(p.random, kind)
	if err != nil {
		return err
	}
	if !c.Browser {
		r.Header.Set("Authorization", "Bearer "+raw)
		caddyhttp.SetVar(r.Context(), rehearsedVar, true)
		return nil
	}
	if s := p.siteOf(r); p.Login && s != nil {
		r.Header.Add("Cookie", s.jar.Name(kindSession)+"="+raw)
		caddyhttp.SetVar(r.Context(), rehearsedVar, true)
	}
	return nil
}

// grants are the grants of access in a rehearsal, which counts no use of them.
type grants func(ctx context.Context, personID, site string) (bool, error)

func (f grants) Holds(ctx context.Context, personID, site string) (bool, recheck.Basis, error) {
	ok, err := f(ctx, personID, site)
	return ok, recheck.Basis{}, err
}

func (f grants) Use(ctx context.Context, personID, site string) (bool, error) {
	return f(ctx, personID, site)
}

func (grants) State(context.Context, string, string) (AccessState, string, error) {
	return AccessNone, "", nil
}

func (grants) Ask(context.Context, string, string, audit.Actor) (string, error) { return "", nil }

const rehearsedVar = "gatehouse.rehearsed"

// standIn is an authority that gives the same answer about every credential and stores nothing.
type standIn struct{ who *token.Introspection }

func (s *standIn) answer() (*token.Introspection, error) {
	if s.who == nil {
		return &token.Introspection{}, nil
	}
	who := *s.who
	who.Confirmation = token.Confirmation{} // the caller of a rehearsal has the key
	return &who, nil
}

// Sign implements asserter: nothing that a rehearsal makes can be verified.
func (s *standIn) Sign(assertion.Statement) (string, error) { return "(a signed assertion)", nil }

// Begin implements transactor, in the same way.
func (s *standIn) Begin(transaction.Claims, string, time.Time) (transaction.Token, error) {
	return transaction.Token{Text: "(a transaction token)"}, nil
}

func (s *standIn) UpstreamToken(context.Context, string, string, string, audit.Origin) (string, error) {
	return "(a token for the upstream)", nil
}

func (s *standIn) Introspect(context.Context, string) (*token.Introspection, error) {
	return s.answer()
}

func (s *standIn) Recheck(context.Context, string) (*token.Introspection, error) {
	return s.answer()
}

func (s *standIn) Use(context.Context, string) (*token.Introspection, error) { return s.answer() }

func (s *standIn) UseAt(context.Context, string, string, audit.Origin) (*token.Introspection, error) {
	return s.answer()
}

func (s *standIn) SiteDevices(string, bool, func(dbsc.Outcome)) *dbsc.Exchange {
	return new(dbsc.Exchange)
}

func (s *standIn) SiteSession(context.Context, string, string, string) (*token.Introspection, error) {
	return s.answer()
}

func (s *standIn) BeginSite(context.Context, authz.SiteDemand, string) (string, error) {
	return "/oauth/site", nil
}

func (s *standIn) FinishSite(context.Context, string, string, string, audit.Origin) (authz.SiteLogin, error) {
	return authz.SiteLogin{}, &oauth.Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: "a rehearsal has no codes"}
}

func (s *standIn) EndSite(context.Context, string, string) (string, error) { return "/", nil }

func (s *standIn) LogoutURL(string) string { return "/" }

var _ authority = (*standIn)(nil)
