package exchange

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A site of the configuration exchanges the token of each request for one that is meant for its upstream, so the
// upstream never sees what the client can use elsewhere.

const (
	upstreamLifetime = 15 * time.Minute
	upstreamSpare    = time.Minute // that one must still be valid for to be sent again
	maxUpstream      = 1 << 14     // tokens that are remembered
)

// ErrEnded says that a token has ended since it was looked at.
var ErrEnded = errors.New("the token has ended")

// ErrLimited says that a token has a usage limit, which an exchange would lift.
var ErrLimited = errors.New("the token has a usage limit and cannot be exchanged for the upstream")

// Upstream gives the tokens for upstreams, and remembers them. It is safe for concurrent use.
type Upstream struct {
	deps Deps
	now  func() time.Time

	mu    sync.Mutex // guards known
	known map[depcache.Key]sent
}

type sent struct {
	text  string
	until time.Time
}

// NewUpstream returns the tokens for upstreams of one configuration.
func NewUpstream(deps Deps, now func() time.Time) *Upstream {
	return &Upstream{deps: deps, now: now, known: map[depcache.Key]sent{}}
}

// Token returns a token for an upstream, for an access token that was looked at for this request: of the same client
// and person, with the same scopes, for the audience alone, and with the site as who acts. It is a JWT, and ends with
// the token that it came from. Errors: ErrLimited, ErrEnded.
func (u *Upstream) Token(ctx context.Context, text, audience, site string, from audit.Origin) (string, error) {
	now := u.now().UTC()
	question := depcache.KeyOf(0, strconv.FormatUint(u.deps.Tokens.KeysVersion(), 10)+" "+site+" "+audience+" "+text)
	u.mu.Lock()
	s, found := u.known[question]
	u.mu.Unlock()
	if found && s.until.After(now) {
		return s.text, nil
	}
	key, good := u.deps.Tokens.AccessKey(text)
	if !good {
		return "", ErrEnded
	}
	draft, renewable, err := u.draft(ctx, key, audience, site, from, now)
	if err != nil {
		return "", err
	}
	err = u.deps.Store.Update(ctx, func(tx storage.Tx) error {
		_, _, active, err := u.deps.Tokens.FindActive(tx, key, now)
		if err != nil {
			return err
		}
		if !active {
			return ErrEnded
		}
		return u.deps.Tokens.Issue(tx, draft)
	})
	if err != nil {
		return "", failure(err)
	}
	u.keep(question, sent{draft.Token, draft.Rec.ExpiresAt}, renewable, now)
	return draft.Token, nil
}

// failure turns failures of storage into a 503 and leaves verdicts as they are.
func failure(err error) error {
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrLimited) {
		return err
	}
	return oauth.StorageError(err)
}

// draft makes the token for an upstream. renewable: the token that it comes from is valid for longer.
func (u *Upstream) draft(ctx context.Context, key, audience, site string, from audit.Origin, now time.Time) (draft *token.Draft,
	renewable bool, err error,
) {
	s := &service{u.deps}
	var sub *subject
	var c *client.Client
	err = u.deps.Store.View(ctx, func(tx storage.Tx) error {
		rec, in, active, err := u.deps.Tokens.FindActive(tx, key, now)
		switch {
		case err != nil:
			return err
		case !active:
			return ErrEnded
		case in.UsageLimit > 0:
			return ErrLimited
		}
		st, ok, err := u.deps.Tokens.CheckStanding(tx, rec.ClientID, rec.Subject)
		if err != nil {
			return err
		}
		if !ok {
			return ErrEnded
		}
		// What binds the token was proved at the site.
		sub, err = s.ofAccess(tx, &request{Request: &grant.Request{Client: st.Client, Now: now, Proved: in.Confirmation}, key: key})
		if err != nil {
			return err
		}
		sub.access.Epochs, c = st.Epochs, st.Client
		return nil
	})
	if err != nil {
		return nil, false, failure(err)
	}
	rec := sub.access
	rec.ClientID, rec.Scope, rec.Audience, rec.CreatedAt, rec.ExpiresAt = sub.from, sub.scope, []string{audience}, now,
		now.Add(upstreamLifetime)
	rec.AuthorizationDetails = sub.details
	if renewable = sub.ends.After(rec.ExpiresAt); !renewable {
		rec.ExpiresAt = sub.ends
	}
	rec.Actors = append([]token.Actor{{Subject: site}}, rec.Actors...)
	signed := *c
	signed.TokenFormat = client.FormatJWT // an upstream can verify it without asking
	if draft, err = u.deps.Tokens.DraftAccess(&signed, rec, eventExchanged, from); err != nil {
		return nil, false, err
	}
	draft.Explain("", "the token of client "+sub.from+" for "+audience+" by the site "+site)
	return draft, renewable, nil
}

// keep remembers a token until its end, or until shortly before it if a longer one can be had.
func (u *Upstream) keep(question depcache.Key, s sent, renewable bool, now time.Time) {
	if renewable {
		s.until = s.until.Add(-upstreamSpare)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.known) >= maxUpstream {
		for q, old := range u.known {
			if !old.until.After(now) {
				delete(u.known, q)
			}
		}
	}
	if len(u.known) >= maxUpstream {
		clear(u.known)
	}
	u.known[question] = s
}
