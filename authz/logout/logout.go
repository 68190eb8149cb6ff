// Package logout remembers which clients took part in a session and notifies them (OIDC back- and front-channel logout)
// when it ends.
package logout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Clients learn that a session has ended from a logout token that we post to them. (OpenID Connect Back-Channel Logout
// 1.0) It goes through an outbox with a lane for each client: the transaction that ends the session writes what is to
// be sent, so nothing is lost and a sign-out waits for no client.

const (
	logoutEvery    = 2 * time.Second // how soon what another server wrote is seen
	logoutLifetime = 2 * time.Minute // of a logout token (Back-Channel Logout 2.4)
	logoutTries    = 16              // about nine hours
	logoutMaxWait  = time.Hour       // between two tries
	// logoutFirst is the wait after the first try. A claim lasts as long, so it is longer than outbound.Timeout.
	logoutFirst   = 10 * time.Second
	logoutAtOnce  = 4                           // requests to one client at a time
	logoutClients = 4                           // clients that are called at a time
	visitKept     = 400 * 24 * time.Hour        // longer than any session
	logoutKept    = visitKept + 30*24*time.Hour // how long a token waits at most, counted from the visit
	logoutEvent   = "http://schemas.openid.net/event/backchannel-logout"
)

// Visits tells clients of the end of sessions. It is safe for concurrent use.
type Visits struct {
	deps    Deps
	issuer  string
	logouts *outbox.Lanes[logoutRecord]
}

// Deps are the dependencies of the visits. All are required.
type Deps struct {
	Store   storage.Store
	Keys    *keys.Keys
	Clients *clientstore.Registry
	Tokens  *token.Ledger
	Log     *zap.Logger
	Now     func() time.Time
	Random  io.Reader
}

// New returns the visits of a store. Several can share one.
func New(issuer string, deps Deps) *Visits {
	v := &Visits{deps: deps, issuer: issuer}
	v.logouts = outbox.NewLanes(logouts, deps.Store, v.now, outbox.Config{
		First: logoutFirst, Most: logoutMaxWait, Tries: logoutTries, MaxAge: logoutKept, AtOnce: logoutAtOnce, Every: logoutEvery,
		Log: deps.Log.With(zap.String("sent", "logout token")),
	}, logoutClients)
	return v
}

func (v *Visits) now() time.Time { return v.deps.Now().UTC() }

// Wake sends what is due at once.
func (v *Visits) Wake() { v.logouts.Wake() }

// logoutClaims are the claims of a logout token. (Back-Channel Logout 2.4: no nonce)
type logoutClaims struct {
	Issuer   string              `json:"iss"`
	Subject  string              `json:"sub"`
	Audience string              `json:"aud"`
	IssuedAt int64               `json:"iat"`
	Expires  int64               `json:"exp"`
	ID       string              `json:"jti"`
	Events   map[string]struct{} `json:"events"`
	Session  string              `json:"sid"`
}

// Remember records that a client knows a session, in the transaction that issues the ID token and has found the
// session live.
func (v *Visits) Remember(tx storage.Tx, c *client.Client, si *token.SignIn, scope []string, now time.Time) error {
	if !c.HearsOfLogout() || si.SessionID == "" || !slices.Contains(scope, client.ScopeOpenID) {
		return nil
	}
	return visits.Put(tx, storage.Key(si.Subject, si.SessionID, c.ID), visitRecord{At: now}, now.Add(visitKept))
}

// SessionEnded queues the logout tokens of a session, in the transaction that ends it.
func (v *Visits) SessionEnded(tx storage.Tx, person, session string) error {
	return v.endVisits(tx, storage.Prefix(person, session), "")
}

// SessionsEnded is SessionEnded for all sessions of a person except one ("": no exception).
func (v *Visits) SessionsEnded(tx storage.Tx, person, except string) error {
	return v.endVisits(tx, storage.Prefix(person), except)
}

func (v *Visits) endVisits(tx storage.Tx, prefix []byte, except string) error {
	for e, err := range visits.Scan(tx, storage.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		parts := storage.Parts(e.Key)
		if parts[1] == except {
			continue
		}
		if err := visits.Delete(tx, e.Key); err != nil {
			return err
		}
		c, found, err := v.deps.Clients.Find(tx, parts[2])
		if err != nil {
			return err
		}
		if found && c.BackchannelLogoutURI != "" && !c.Disabled {
			// A transaction reads no clock. The visit has passed, so a token of its time is due at once.
			rec := logoutRecord{Person: parts[0], Session: parts[1]}
			if err := v.logouts.Add(tx, c.ID, rec.Session, e.Value.At, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run sends logout tokens until ctx ends. Several can run at a time.
func (v *Visits) Run(ctx context.Context) { v.logouts.Run(ctx, v.sendLogout) }

// Send sends what is due now.
func (v *Visits) Send(ctx context.Context) error { return v.logouts.Send(ctx, v.sendLogout) }

// sendLogout makes one try. A client that is gone, disabled or no longer interested needs no token.
func (v *Visits) sendLogout(ctx context.Context, clientID, _ string, rec logoutRecord) error {
	c, err := v.deps.Clients.Get(ctx, clientID)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && (c.Disabled || c.BackchannelLogoutURI == "")) {
		return nil
	}
	if err != nil {
		return err
	}
	return v.postLogout(ctx, c, rec)
}

// postLogout sends a logout token. (Back-Channel Logout 2.5, 2.8)
func (v *Visits) postLogout(ctx context.Context, c *client.Client, rec logoutRecord) error {
	id, err := secret.ID(v.deps.Random, 16)
	if err != nil {
		return err
	}
	now := v.now()
	token, err := v.deps.Keys.Sign(c.IDTokenAlg, keys.TypeLogout, logoutClaims{
		Issuer: v.issuer, Subject: v.deps.Tokens.SubjectFor(c, rec.Person), Audience: c.ID, IssuedAt: now.Unix(),
		Expires: now.Add(logoutLifetime).Unix(), ID: id,
		Events: map[string]struct{}{logoutEvent: {}}, Session: rec.Session,
	})
	if err != nil {
		return err
	}
	body := strings.NewReader(url.Values{"logout_token": {token}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BackchannelLogoutURI, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", oauth.FormType)
	res, err := v.deps.Clients.HTTPClient(c).Do(req)
	if err != nil {
		// Without the URL, which can hold a secret of the client
		return fmt.Errorf("post logout token: %w", errors.Unwrap(err))
	}
	defer res.Body.Close()
	if _, err := outbound.Body(res); err != nil {
		return err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("post logout token: status %d", res.StatusCode)
	}
	return nil
}

// Frames returns the addresses that the page after a sign-out loads in frames, so the clients of the session clear
// their own sessions. (OpenID Connect Front-Channel Logout 1.0, 2)
func (v *Visits) Frames(ctx context.Context, person, session string) (frames []string, err error) {
	err = v.deps.Store.View(ctx, func(tx storage.Tx) error {
		frames = nil
		for e, err := range visits.Scan(tx, storage.Range{Prefix: storage.Prefix(person, session)}) {
			if err != nil {
				return err
			}
			c, found, err := v.deps.Clients.Find(tx, storage.Parts(e.Key)[2])
			if err != nil {
				return err
			}
			if found && c.FrontchannelLogoutURI != "" && !c.Disabled {
				frames = append(frames, client.WithQuery(c.FrontchannelLogoutURI, url.Values{"iss": {v.issuer}, "sid": {session}}))
			}
		}
		return nil
	})
	return frames, err
}
