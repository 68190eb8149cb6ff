package token

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Introspection is the state of a token. For an unknown, expired or revoked token Active is false and nothing else is
// set. The caller can set its fields, but not the values behind pointers, slices and maps: those are shared.
type Introspection struct {
	Active   bool
	Scope    []string
	ClientID string
	Client   *client.Client // nil: an app password or a session at a site
	// Stranger says that no operator has registered the client.
	Stranger  bool
	Subject   string // the person, or the client for its own token
	TokenType string // bearer, DPoP or refresh_token
	IssuedAt  time.Time
	ExpiresAt time.Time
	AuthTime  time.Time // zero for a client's own token
	Audience  []string  // resources it is meant for (RFC 8707). Empty: any
	Level     int       // authentication level, 1 to 4. 0 for a client's own token
	AMR       []string  // words of the token server document
	SessionID string
	// DeviceBound says that a session at a site is bound to a key on the device of its browser. (package dbsc)
	DeviceBound bool
	Person      *authn.Subject // nil for a client's own token
	// Permissions are those of the person's groups, by the names of the groups. Describe alone sets them.
	Permissions map[string][]string
	// UsageLimit is the maximum number of uses of the token, UsageCount the number so far. 0 and 0: without limit.
	UsageLimit, UsageCount int

	// App is the mobile app instance that got the token. nil: another kind of client.
	App *client.App

	Provider string   // of the sign-in
	Vouched  bool     // as in authn.Result
	Barred   bool     // the token is inactive because people cannot sign in by its provider any more
	Claims   []string // for the userinfo endpoint, in addition to those of the scopes
	Verified string   // the verified claims that it asks for there, in JSON
	Sector   string   // of the identifier by which the client knows the person; Subject is the public one

	// AppPassword is the id of an app password, which works at the sites of Audience alone. Empty: another token.
	AppPassword string

	// Confirmation is the proof that the sender must give. For checks it.
	Confirmation Confirmation

	// Actors act for the subject, the present one first.
	Actors []Actor

	// AuthorizationDetails are in JSON. (RFC 9396)
	AuthorizationDetails string
}

// AuthorizedActions are the actions of the authorization details of a type.
func (i *Introspection) AuthorizedActions(name string) []string {
	return rar.ActionsOf(i.AuthorizationDetails, name)
}

// Assurance is the identity assurance level of the person at a time. 0: no one has assured it, or there is no person.
func (i *Introspection) Assurance(now time.Time) int {
	if i.Person == nil {
		return 0
	}
	return i.Person.Assurance.Level(now)
}

// MeantFor reports whether the token can be used at a resource that has these names: it names one of them as its
// audience, or has none. (RFC 8707 2)
func (i *Introspection) MeantFor(resources ...string) bool {
	a := client.Acceptance{Origins: resources}
	return a.Meant(i.Audience)
}

// NamedBy reports whether a rule that asks for these scopes and clients names the token.
func (i *Introspection) NamedBy(scopes, clients []string) bool {
	return client.NamesInRule(scopes, clients, i.Stranger)
}

// At reports whether the token can be used at a site, named by its origin.
func (i *Introspection) At(site string) bool {
	return i.AppPassword == "" || slices.Contains(i.Audience, site)
}

// Introspect reads an access token. Calling it does not count as a use of the token. An unknown, expired, revoked or
// used-up token and other text is inactive. An error is a failure, not a verdict: callers must refuse.
func (l *Ledger) Introspect(ctx context.Context, token string) (*Introspection, error) {
	in, _, err := l.ask(ctx, aboutToken, token)
	return unlessUsedUp(in, err)
}

// Describe is Introspect with Permissions.
func (l *Ledger) Describe(ctx context.Context, token string) (*Introspection, error) {
	in, _, err := l.ask(ctx, aboutTokenInFull, token)
	return unlessUsedUp(in, err)
}

// Recheck is Introspect for a request that was let in already: a token that was used up since, perhaps by this request,
// is still active.
func (l *Ledger) Recheck(ctx context.Context, token string) (*Introspection, error) {
	in, _, err := l.ask(ctx, aboutToken, token)
	return in, err
}

// Observe is Recheck, and also returns the basis of the answer. The answer depends on the signing keys too: see
// keys.Keys.Version.
func (l *Ledger) Observe(ctx context.Context, token string) (*Introspection, recheck.Basis, error) {
	return l.ask(ctx, aboutToken, token)
}

// KeysVersion changes whenever a signing key is added or removed.
func (l *Ledger) KeysVersion() uint64 { return l.deps.Keys.Version() }

func unlessUsedUp(in *Introspection, err error) (*Introspection, error) {
	if err == nil && in.UsedUp() {
		in = &Introspection{}
	}
	return in, err
}

// The kinds of questions whose answers are cached.
const (
	aboutToken       byte = iota
	aboutTokenInFull      // its permissions too
	aboutJWT
)

// The sizes of the caches in bytes: some 20,000 tokens of clients, or 8,000 of persons.
const (
	answersKept = 16 << 20
	jwtsKept    = 4 << 20
)

// cachedIntrospection is the cached data of an active token without a usage limit.
type cachedIntrospection struct {
	in     Introspection
	until  time.Time
	signed uint64 // the set of signing keys that has verified the JWT. 0: another token
}

// ask answers from the cache, or reads the token in one View.
func (l *Ledger) ask(ctx context.Context, kind byte, token string) (*Introspection, recheck.Basis, error) {
	if len(token) > maxToken {
		return &Introspection{}, recheck.Basis{}, nil
	}
	now, question := l.now(), depcache.KeyOf(kind, token)
	if a, basis, ok := l.answers.FindBasis(question, now); ok && (a.signed == 0 || a.signed == l.deps.Keys.Version()) {
		in := a.in
		return &in, basis, ctx.Err()
	}
	signed := uint64(0)
	if !secret.IsToken(secret.AccessToken, token) {
		signed = l.deps.Keys.Version() // before it verifies
	}
	key, ok := l.AccessKey(token)
	if !ok {
		return &Introspection{}, recheck.Basis{}, nil // without a storage read
	}
	a, basis, err := l.answers.Look(ctx, question, now, func(tx storage.Tx) (a *cachedIntrospection, until time.Time, err error) {
		a = &cachedIntrospection{signed: signed}
		a.until, err = l.inspect(tx, key, now, &a.in)
		if p := a.in.Person; err == nil && kind == aboutTokenInFull && p != nil {
			a.in.Permissions, err = l.deps.Subjects.Permissions(tx, p.Partition, p.Groups)
		}
		if a.in.UsageLimit > 0 {
			return a, time.Time{}, err // every use would end it
		}
		return a, a.until, err
	})
	if err != nil {
		return nil, basis, oauth.StorageError(err)
	}
	in := a.in
	basis.Until = a.until
	return &in, basis, nil
}

// maxToken is longer than any access token.
const maxToken = 16 << 10

// inspect reads an access token. It returns the time until which an active one is valid if no record changes.
func (l *Ledger) inspect(tx storage.Tx, key string, now time.Time, out *Introspection) (until time.Time, err error) {
	*out = Introspection{}
	rec, found, err := accessTokens.Find(tx, key)
	if err != nil || !found || !rec.ExpiresAt.After(now) {
		return until, err
	}
	h, ok, err := l.holders(tx, &rec, now)
	if err != nil || !ok {
		return until, err
	}
	if ok, err = l.ProviderCounts(tx, rec.Provider); err != nil || !ok {
		*out = Introspection{Barred: err == nil, Audience: rec.Audience}
		return until, err
	}
	c := h.client
	*out = Introspection{
		Active: true, Scope: l.deps.Clients.StillGiven(c, rec.Scope, h.person, now), ClientID: rec.ClientID, Client: c,
		Stranger: c.IsStranger(), Subject: rec.Subject, TokenType: rec.Confirmation.TokenType(),
		IssuedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt, AuthTime: rec.AuthTime, Audience: rec.Audience, Level: rec.Level,
		AMR: rec.AMR, SessionID: rec.SessionID, Person: h.person, UsageLimit: rec.UsageLimit, Provider: rec.Provider, Vouched: h.vouched,
		Claims: l.deps.Clients.StillClaimed(c, rec.Claims, h.person, now), Verified: rec.Verified, Sector: c.Sector(), App: c.App,
		Confirmation: rec.Confirmation, Actors: rec.Actors,
		AuthorizationDetails: l.deps.Clients.StillDetailed(c, rec.AuthorizationDetails),
	}
	if out.Subject == "" {
		out.Subject = rec.ClientID // the sub of a client-credentials token is the client (docs/decisions/introspection.md#introspection)
	}
	until = rec.ExpiresAt
	if rec.GrantID != "" && h.grantEnds.Before(until) {
		until = h.grantEnds
	}
	if h.person != nil {
		until = h.person.AssuredUntil(until, now)
	}
	if rec.UsageLimit == 0 {
		return until, nil
	}
	used, found, err := uses.Find(tx, key)
	if err != nil || !found {
		*out = Introspection{}
		return time.Time{}, err
	}
	out.UsageCount = used.Count
	return until, nil
}

// held are the records that an access token depends on.
type held struct {
	client    *client.Client
	person    *authn.Subject // nil: the client's own token
	grantEnds time.Time
	vouched   bool // as in authn.Result
}

// holders reads what an access token depends on: its grant, its client and the global epoch in one round trip, its
// person in another. It is false when one of them has ended.
func (l *Ledger) holders(tx storage.Tx, rec *Access, now time.Time) (h held, ok bool, err error) {
	keys := make([][]byte, 0, 4)
	keys = append(keys, l.deps.Clients.EpochKeys(rec.ClientID)...)
	ofClient := len(keys)
	keys = append(keys, globals.Key(globalKey))
	if rec.GrantID != "" {
		keys = append(keys, grants.Key(rec.GrantID))
	}
	own := len(keys)
	values, err := tx.GetMany(l.sourceKeys(keys, rec.Sources)...)
	if err != nil {
		return h, false, err
	}
	clients, ok, err := l.sourcesStand(tx, rec.Sources, values[own:])
	if err != nil || !ok {
		return h, false, err
	}
	values = values[:own]
	global, err := l.globalEpoch(values[ofClient])
	if err != nil || global != rec.Epochs.Global {
		return h, false, err
	}
	c, epoch, err := l.deps.Clients.DecodeWithEpoch(rec.ClientID, values)
	if err != nil || c == nil || c.Disabled || epoch != rec.Epochs.Client {
		return h, false, err
	}
	h.client = c
	var g Grant
	if rec.GrantID != "" {
		raw := values[len(values)-1]
		if raw == nil {
			return h, false, nil // revoked
		}
		if g, err = grants.Decode(raw); err != nil || !g.ExpiresAt.After(now) {
			return h, false, err
		}
		h.grantEnds, h.vouched = g.ExpiresAt, g.Vouched
	}
	if rec.Subject == "" {
		return h, true, nil
	}
	person, err := l.deps.Subjects.Get(tx, rec.Subject)
	if errors.Is(err, storage.ErrNotFound) {
		return h, false, nil
	}
	// The clients that the token was exchanged from count too: their own tokens of the person would be inactive.
	left := func(of *client.Client) bool { return l.deps.Clients.MayPerson(of, &person) != nil }
	if err != nil || !person.Active || person.Epoch != rec.Epochs.Person || !g.Counts(&person) || left(c) ||
		slices.ContainsFunc(clients, left) {
		return h, false, err
	}
	if g.Details != nil {
		person.Details = g.Details
	}
	h.person = &person
	return h, true, nil
}

func (a *cachedIntrospection) weigh() int { return a.in.Weigh() }

// Weigh estimates the bytes that an Introspection takes in memory.
func (i *Introspection) Weigh() int {
	n := 512 + len(i.ClientID) + len(i.Subject) + len(i.SessionID) + len(i.Confirmation.JKT) +
		len(i.Confirmation.X5T) + len(i.AuthorizationDetails) + len(i.Verified)
	for _, list := range [...][]string{i.Scope, i.Audience, i.AMR, i.Claims} {
		n += textsWeigh(list)
	}
	for group, permissions := range i.Permissions {
		n += perMember + len(group) + textsWeigh(permissions)
	}
	for _, a := range i.Actors {
		n += 32 + len(a.Subject) + len(a.ClientID)
	}
	p := i.Person
	if p == nil {
		return n
	}
	n += 192 + len(p.ID) + len(p.Username) + textsWeigh(p.Groups)
	for claim, value := range p.Profile {
		n += perMember + len(claim) + len(value)
	}
	for name, values := range p.Details {
		n += perMember + len(name) + textsWeigh(values)
	}
	return n
}

// perMember is the memory for a member of a map besides its texts, in bytes.
const perMember = 64

func textsWeigh(texts []string) (n int) {
	for _, t := range texts {
		n += 16 + len(t)
	}
	return n
}
