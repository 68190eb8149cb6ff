package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// Need are the requirements for the caller, all of which must be met.
type Need struct {
	// Groups; the person must be in at least one of them.
	Groups []string `json:"groups,omitempty"`
	// Scopes that a bearer token must have, all of them. A browser's session at the site has those whose levels it has.
	Scopes []string `json:"scopes,omitempty"`
	// The minimum authentication level, 1 to 4.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// The minimum identity assurance level of the person, 1 to 4.
	Assurance caddyfileutil.Count `json:"assurance,omitempty"`
	// The maximum age of the sign-in.
	MaxAge caddyfileutil.Duration `json:"max_age,omitempty"`
	// Claims with one of the named values each.
	Claims []Claim `json:"claims,omitempty"`
	// The persons, by username or identifier, at least one.
	Persons []string `json:"persons,omitempty"`
	// The clients that the token was issued to, at least one.
	Clients []string `json:"clients,omitempty"`
	// The identity providers of the sign-in, at least one.
	Providers []string `json:"providers,omitempty"`
	// Whether the session at the site must be bound to the device of the browser. No token and no app password is.
	DeviceBound bool `json:"device_bound,omitempty"`
	// The robots, at least one, by the domains of the keys that sign their requests. They need no sign-in.
	Agents []string `json:"agents,omitempty"`

	level     int
	assurance int
	maxAge    time.Duration
}

// Claim is a claim and its accepted values.
type Claim struct {
	// The claim: sub, username, email, client_id, or one of the person's profile. Required.
	Name string `json:"name"`
	// The values, at least one of which the claim must have. Required.
	Values []string `json:"values"`
}

// SetUp resolves and checks the options.
func (n *Need) SetUp(res *caddyfileutil.Resolver) {
	n.Groups = res.List("groups", n.Groups, nil)
	n.Scopes = res.List("scopes", n.Scopes, caddyfileutil.CheckScope)
	n.Persons = res.List("person", n.Persons, nil)
	n.Clients = res.List("client", n.Clients, nil)
	n.Providers = res.List("provider", n.Providers, nil)
	n.Agents = res.List("agent", n.Agents, checkAgent)
	if others := *n; len(n.Agents) > 0 {
		if others.Agents = nil; !others.IsEmpty() {
			res.Fail("agent: a robot has no sign-in, no groups and no scopes: ask for nothing else besides it")
		}
	}
	n.level = res.Count("level", n.Level, caddyfileutil.CheckLevel)
	n.assurance = res.Count("assurance", n.Assurance, caddyfileutil.CheckLevel)
	n.maxAge = res.Duration("max_age", n.MaxAge)
	for i := range n.Claims {
		c := &n.Claims[i]
		if c.Name == "" || len(c.Values) == 0 {
			res.Fail("claim: want a name and a value, as in: claim department finance")
			continue
		}
		c.Values = res.List("claim", c.Values, nil)
	}
}

// RequiredLevel returns the minimum authentication level. 0: any.
func (n *Need) RequiredLevel() int { return n.level }

// RequiredAssurance returns the minimum identity assurance level. 0: any.
func (n *Need) RequiredAssurance() int { return n.assurance }

// OldestSignIn returns the maximum age of the sign-in. 0: any.
func (n *Need) OldestSignIn() time.Duration { return n.maxAge }

// IsEmpty reports whether there are no requirements.
func (n *Need) IsEmpty() bool {
	return len(n.Groups)+len(n.Scopes)+len(n.Claims)+len(n.Persons)+len(n.Clients)+len(n.Providers)+len(n.Agents) == 0 && n.Level == "" &&
		n.Assurance == "" && n.MaxAge == "" && !n.DeviceBound
}

// Facts are the known facts about the caller.
type Facts struct {
	Who     *token.Introspection // nil: a stranger
	Browser bool                 // a session at the site, which has every scope whose levels it has
	Now     time.Time
	// Unnamed says that the site does not accept tokens like the caller's: only an allow rule that names scopes or clients
	// lets it in.
	Unnamed bool
	// Demands returns the authentication level and the identity assurance level that a scope needs. nil: no scope needs
	// any.
	Demands func(scope string) (level, assurance int)

	agent string // the domain of the robot that has signed the request. Empty: none has
}

func (f Facts) signedIn() bool { return f.Who != nil && f.Who.Active }

// Levels returns the minimum authentication level and the minimum identity assurance level that the need asks of a
// caller. 0: any. The demands of scopes count for browsers alone: a token had to meet them to get the scope.
func (n *Need) Levels(who Facts) (level, assurance int) {
	level, assurance = n.level, n.assurance
	if who.Browser && who.Demands != nil {
		for _, scope := range n.Scopes {
			l, a := who.Demands(scope)
			level, assurance = max(level, l), max(assurance, a)
		}
	}
	return level, assurance
}

// Judge reports whether the need is met, or what would meet it. A client with a token of its own has no level, no
// identity and no sign-in, and cannot get one.
func (n *Need) Judge(who Facts) Outcome {
	level, assurance := n.Levels(who)
	switch {
	case isAgent(n.Agents, who.agent):
		return Allowed
	case len(n.Agents) > 0:
		return Denied
	case !who.signedIn():
		return SignIn
	case !n.lasting(who):
		return Denied
	case !who.Browser && n.lacksScope(who.Who):
		return Scope
	case n.DeviceBound && !who.Who.DeviceBound:
		return Unbound
	case level == 0 && n.maxAge == 0 && assurance == 0:
		return Allowed
	case who.Who.Person == nil:
		return Denied
	case who.Who.Assurance(who.Now) < assurance: // first: a stronger sign-in would not help
		return Unassured
	case who.Who.Level < level:
		return StepUp
	case n.maxAge > 0 && who.Now.Sub(who.Who.AuthTime) >= n.maxAge:
		return Renew
	}
	return Allowed
}

func (n *Need) lacksScope(who *token.Introspection) bool {
	return slices.ContainsFunc(n.Scopes, func(s string) bool { return !slices.Contains(who.Scope, s) })
}

// lasting reports whether the requirements that no sign-in can change are met.
func (n *Need) lasting(f Facts) bool {
	who := f.Who
	switch {
	case len(n.Groups) > 0 && (who.Person == nil ||
		!slices.ContainsFunc(n.Groups, func(g string) bool { return slices.Contains(who.Person.Groups, g) })):
		return false
	case len(n.Persons) > 0 && (who.Person == nil || !slices.Contains(n.Persons, who.Person.Username) &&
		!slices.Contains(n.Persons, who.Person.ID)):
		return false
	case len(n.Clients) > 0 && !slices.Contains(n.Clients, who.ClientID):
		return false
	case len(n.Providers) > 0 && !slices.Contains(n.Providers, who.Provider):
		return false
	}
	return !slices.ContainsFunc(n.Claims, func(c Claim) bool { return !hasClaim(who, c, f.Now) })
}

// hasClaim reports whether a claim has one of some values.
func hasClaim(who *token.Introspection, c Claim, now time.Time) bool {
	one, many := Lookup(who, c.Name, now)
	return one != "" && slices.Contains(c.Values, one) ||
		slices.ContainsFunc(many, func(v string) bool { return slices.Contains(c.Values, v) })
}

// detailsClaim are the authorization details in JSON; with the name of a type after it, the actions of that type.
const detailsClaim = "authorization_details"

// assuranceClaim is the identity assurance level. No provider can set it.
const assuranceClaim = "identity_assurance_level"

// claims are the names that Lookup gives a special meaning, and those of a profile.
var claims = []string{
	"id", "sub", "client_id", "scope", "aud", "amr", "sid", "level", "acr", detailsClaim, assuranceClaim, "username",
	"preferred_username", "groups", "partition",
	"name", "given_name", "family_name", "middle_name", "nickname", "email", "email_verified", "phone_number",
	"phone_number_verified", "locale", "birthdate",
	"gender", "zoneinfo", "profile", "picture", "website", "address", "updated_at",
}

// IsClaim reports whether a name is one of these.
func IsClaim(name string) bool { return slices.Contains(claims, name) }

// MeantClaim returns the claim that a name was probably meant to be. "": it is a claim already, or a custom detail.
func MeantClaim(name string) string {
	of, _, _ := strings.Cut(name, ".")
	if len(name) < 4 || slices.Contains(claims, of) || caddyfileutil.HasPlaceholder(name) || strings.ContainsAny(name, "0123456789") {
		return ""
	}
	return spelling.Word(name, claims)
}

// Lookup returns the claim of a person or client under a name: a text, or several. Neither: it is absent.
func Lookup(who *token.Introspection, name string, now time.Time) (one string, many []string) {
	if of, ok := strings.CutPrefix(name, detailsClaim+"."); ok {
		return "", who.AuthorizedActions(of)
	}
	switch name {
	case detailsClaim:
		return who.AuthorizationDetails, nil
	case "id", "sub":
		return who.Subject, nil
	case "client_id":
		return who.ClientID, nil
	case "scope":
		return "", who.Scope
	case "aud":
		return "", who.Audience
	case "amr":
		return "", who.AMR
	case "sid":
		return who.SessionID, nil
	case "level", "acr":
		switch {
		case who.Level <= 0:
			return "", nil
		case name == "acr":
			return "urn:gatehouse:level:" + strconv.Itoa(who.Level), nil
		}
		return strconv.Itoa(who.Level), nil
	}
	// A client with its own token is not a person: it has no username that could be mistaken for a person's.
	if who.Person == nil {
		return "", nil
	}
	switch name {
	case assuranceClaim:
		if level := who.Assurance(now); level > 0 {
			return strconv.Itoa(level), nil
		}
		return "", nil
	case "username", "preferred_username":
		return who.Person.Username, nil
	case "groups":
		return "", who.Person.Groups
	case "email":
		if who.Person.Profile["email_verified"] == "false" {
			// Anyone can claim an address, so upstreams that know people by address must not get an unverified one. The
			// operator maps what a provider says.
			if slices.Contains(who.Person.Details["email_verified"], "false") {
				return "", nil
			}
			return "", who.Person.Details[name]
		}
	case "phone_number":
		if who.Person.Profile["phone_number_verified"] == "false" {
			return "", who.Person.Details[name]
		}
	}
	if v, ok := who.Person.Profile[name]; ok {
		return v, nil
	}
	return "", who.Person.Details[name]
}
