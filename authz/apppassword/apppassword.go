// Package apppassword makes, lists, looks up, counts and revokes app passwords: secrets of a person for programs that
// cannot show a sign-in page. (docs/decisions/introspection.md#app-passwords)
package apppassword

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// answersKept is the maximum size of the cached answers in bytes: those of some 4,000 app passwords.
const answersKept = 8 << 20

// Passwords are the app passwords at the sites of one configuration. They are safe for concurrent use.
type Passwords struct {
	deps    Deps
	answers *depcache.Cache[*passwordResponse]

	mu   sync.Mutex        // guards all below
	seen map[place]*recent // uses that are counted together
	due  []recent          // counts that are to be written
}

// Deps are the dependencies of the package. All but Allowed are required.
type Deps struct {
	Store   storage.Store
	Tokens  *token.Ledger
	Clients *clientstore.Registry
	Events  *audit.Recorder
	// Sites are those that accept app passwords.
	Sites []Site
	// Allowed reports whether the settings allow app passwords. nil: they do.
	Allowed func(tx storage.Tx) (bool, error)
	Log     *zap.Logger
	Now     func() time.Time
	Random  io.Reader
}

// Site is a site that accepts app passwords.
type Site struct {
	Origin string
	// Scopes are those that the site asks for somewhere.
	Scopes []string
	// Groups of which a person must be in one. Empty: any person.
	Groups []string
	// Partitions whose persons may pass. Empty: the default one; *: all.
	Partitions []string
}

// New returns the app passwords of a store. Several can share one.
func New(deps Deps) *Passwords {
	if deps.Allowed == nil {
		deps.Allowed = func(storage.Tx) (bool, error) { return true, nil }
	}
	return &Passwords{deps: deps, answers: depcache.New(deps.Store, answersKept, (*passwordResponse).weigh), seen: map[place]*recent{}}
}

func (p *Passwords) now() time.Time { return p.deps.Now().UTC() }

// admits reports whether a site is one for this person, as far as that is known before a request.
func (s *Site) admits(who authn.Subject) bool {
	if len(s.Groups) > 0 && !slices.ContainsFunc(s.Groups, func(g string) bool { return slices.Contains(who.Groups, g) }) {
		return false
	}
	if len(s.Partitions) == 0 {
		return who.Partition == ""
	}
	return slices.Contains(s.Partitions, "*") || slices.Contains(s.Partitions, cmp.Or(who.Partition, audit.DefaultPartition))
}

// Takes reports whether a site takes the app passwords of a person now. Protect judges that itself; others ask here.
func (p *Passwords) Takes(site string, who *authn.Subject) bool {
	return slices.ContainsFunc(p.deps.Sites, func(s Site) bool { return s.Origin == site && s.admits(*who) })
}

// passwordResponse is the cached response for an app password without a usage limit.
type passwordResponse struct {
	in    token.Introspection
	until time.Time
}

func (a *passwordResponse) weigh() int { return a.in.Weigh() }

// aboutPassword is the only kind of question.
const aboutPassword = 0

// Introspect reads an app password. An unknown, expired, revoked or used-up one is inactive; an error is a failure, not
// a verdict.
func (p *Passwords) Introspect(ctx context.Context, text string) (*token.Introspection, error) {
	in, err := p.Recheck(ctx, text)
	if err == nil && in.UsedUp() {
		in = &token.Introspection{}
	}
	return in, err
}

// Recheck is Introspect for a request that was let in already: an app password that was used up since is still active.
func (p *Passwords) Recheck(ctx context.Context, text string) (*token.Introspection, error) {
	in, _, err := p.Observe(ctx, text)
	return in, err
}

// Observe is Recheck, and returns what the answer rests on.
func (p *Passwords) Observe(ctx context.Context, text string) (*token.Introspection, recheck.Basis, error) {
	if !secret.IsToken(secret.AppPassword, text) {
		return &token.Introspection{}, recheck.Basis{}, nil // without a storage read
	}
	now, question := p.now(), depcache.KeyOf(aboutPassword, text)
	a, basis, ok := p.answers.FindBasis(question, now)
	if !ok {
		var err error
		a, basis, err = p.answers.Look(ctx, question, now, func(tx storage.Tx) (a *passwordResponse, until time.Time, err error) {
			a = new(passwordResponse)
			a.until, err = p.inspect(tx, secret.Hash(text), now, &a.in)
			if a.in.UsageLimit > 0 {
				return a, time.Time{}, err // every use would end it
			}
			return a, a.until, err
		})
		if err != nil {
			return nil, basis, oauth.StorageError(err)
		}
		basis.Until = a.until
	}
	in := a.in
	return &in, basis, ctx.Err()
}

// inspect reads an app password. It returns until when an active one stands if no record changes.
func (p *Passwords) inspect(tx storage.Tx, hash string, now time.Time, out *token.Introspection) (until time.Time, err error) {
	*out = token.Introspection{}
	rec, found, err := passwords.Find(tx, hash)
	if err != nil || !found || !rec.ExpiresAt.After(now) {
		return until, err
	}
	st, good, err := p.deps.Tokens.CheckStanding(tx, "", rec.Person)
	if err != nil || !good {
		return until, err
	}
	if st.Epochs.Global, err = p.deps.Tokens.EpochIn(tx); err != nil || st.Epochs != rec.Epochs || !rec.signIn().Counts(&st.Subject) {
		return until, err
	}
	if counts, err := p.deps.Tokens.ProviderCounts(tx, rec.Provider); err != nil || !counts {
		return until, err
	}
	if allowed, err := p.deps.Allowed(tx); err != nil || !allowed {
		return until, err
	}
	*out = token.Introspection{
		Active: true, Scope: p.deps.Clients.Assured(rec.Scope, &st.Subject, now), Subject: rec.Person, TokenType: token.TypeBearer,
		IssuedAt: rec.CreatedAt, ExpiresAt: rec.ExpiresAt,
		AuthTime: rec.AuthTime, Audience: rec.Sites, Level: rec.Level, AMR: rec.AMR, Person: &st.Subject, UsageLimit: rec.UsageLimit,
		Provider: rec.Provider, AppPassword: rec.ID,
	}
	until = st.Subject.AssuredUntil(rec.ExpiresAt, now)
	if rec.UsageLimit == 0 {
		return until, nil
	}
	used, found, err := uses.Find(tx, hash)
	if err != nil || !found {
		*out = token.Introspection{}
		return until, err
	}
	out.UsageCount = used.Count
	return until, nil
}
