package authz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Clients learn that a session has ended by a logout token that we post to them. (OpenID Connect Back-Channel Logout 1.0) What is to be
// sent is written in the transaction that ends the session, so that it is neither forgotten nor waited for.

const (
	logoutEvery    = 2 * time.Second      // how soon what another server wrote is seen
	logoutLifetime = 2 * time.Minute      // of a logout token (Back-Channel Logout 2.4)
	logoutTries    = 16                   // about nine hours
	logoutMaxWait  = time.Hour            // between two tries
	logoutFirst    = 10 * time.Second     // after the first try; longer than outbound.Timeout, since it is the lease of a try too
	logoutBatch    = 64                   // tries of one round
	logoutAtOnce   = 8                    // requests at a time
	visitKept      = 400 * 24 * time.Hour // longer than any session
	logoutEvent    = "http://schemas.openid.net/event/backchannel-logout"
)

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

// hearsOfLogout tells whether the client wants to know when sessions end.
func (c *Client) hearsOfLogout() bool {
	return c.BackchannelLogoutURI != "" || c.FrontchannelLogoutURI != ""
}

// checkLogoutURIs: what is called must be as safe as what a browser is led to; a page in a frame must be one of the client's own
// (Front-Channel Logout 2: scheme, host and port of a redirect URI).
func (c *Client) checkLogoutURIs(p *problems) {
	for _, o := range [...]struct{ option, uri string }{
		{"backchannel_logout_uri", c.BackchannelLogoutURI}, {"frontchannel_logout_uri", c.FrontchannelLogoutURI},
	} {
		if o.uri == "" {
			continue
		}
		if err := validateRedirectURI(o.uri); err != nil {
			p.addf("%s: %q: %w", o.option, o.uri, err)
		} else if !strings.HasPrefix(o.uri, "https://") && !strings.HasPrefix(o.uri, "http://") {
			p.addf("%s: %q: must be https", o.option, o.uri)
		}
	}
	if uri := c.FrontchannelLogoutURI; uri != "" && !slices.ContainsFunc(c.RedirectURIs, func(r string) bool { return redirectTarget(r) == redirectTarget(uri) }) {
		p.addf("frontchannel_logout_uri: %q has not the scheme, host and port of one of the redirect_uris", uri)
	}
}

// rememberVisit keeps that a client knows a session, in the transaction that gives it an ID token. A session that has ended while the code
// was on its way is told of a little later, when the client has made its own of the code.
func (s *Server) rememberVisit(tx storage.Tx, c *Client, si *signIn, scope []string, now time.Time) error {
	if !c.hearsOfLogout() || si.SessionID == "" || !slices.Contains(scope, scopeOpenID) {
		return nil
	}
	key := storage.Key(si.Subject, si.SessionID, c.ID)
	_, err := s.Subjects.Session(tx, si.SessionID, now)
	if errors.Is(err, storage.ErrNotFound) {
		if c.BackchannelLogoutURI == "" {
			return nil
		}
		return logouts.Put(tx, key, logoutRecord{DueAt: now.Add(logoutFirst)}, never)
	}
	if err != nil {
		return err
	}
	return visits.Put(tx, key, visitRecord{At: now}, now.Add(visitKept))
}

// SessionEnded is told that a session ends, in the transaction that ends it.
func (s *Server) SessionEnded(tx storage.Tx, person, session string) error {
	return s.endVisits(tx, storage.Prefix(person, session), "")
}

// SessionsEnded is told that every session of a person ends, but for one ("": none), in the transaction that ends them.
func (s *Server) SessionsEnded(tx storage.Tx, person, except string) error {
	return s.endVisits(tx, storage.Prefix(person), except)
}

// TokensEnded is told that what was given in a session ends with it, in the transaction that ends it: its identity provider wants it so.
func (s *Server) TokensEnded(tx storage.Tx, person, session string) error {
	for e, err := range grantsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return err
		}
		parts := storage.Parts(e.Key)
		g, err := grants.Get(tx, parts[2])
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if g.SessionID != session {
			continue
		}
		if err := dropGrant(tx, person, parts[1], parts[2]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) endVisits(tx storage.Tx, prefix []byte, except string) error {
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
		c, err := s.clients.get(tx, parts[2])
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if c.BackchannelLogoutURI != "" && !c.Disabled {
			if err := logouts.Put(tx, e.Key, logoutRecord{}, never); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run sends what waits to be sent until ctx ends. Several servers of one store may run at a time.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(logoutEvery)
	defer tick.Stop()
	for {
		if err := s.sendLogouts(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("logout tokens not sent", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// wakeUp lets Run look at once. It never waits.
func (s *Server) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// dueLogout is one logout token to be sent.
type dueLogout struct {
	key                       string
	person, session, clientID string
	rec                       logoutRecord
}

// sendLogouts sends what is due, round after round, and returns when nothing is.
func (s *Server) sendLogouts(ctx context.Context) error {
	for ctx.Err() == nil {
		due, err := s.claimLogouts(ctx)
		if err != nil || len(due) == 0 {
			return err
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, logoutAtOnce)
		for _, d := range due {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				s.sendLogout(ctx, d)
			})
		}
		wg.Wait()
	}
	return ctx.Err()
}

// claimLogouts returns what is due, the first tries first, so that clients that do not answer hold up nobody else. Each is put off to its next
// try in the same transaction: another server of the store does not send it too.
func (s *Server) claimLogouts(ctx context.Context) (due []dueLogout, err error) {
	now := s.now()
	waits := false
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		for e, err := range logouts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if waits = !e.Value.DueAt.After(now); waits {
				return nil
			}
		}
		return nil
	})
	if err != nil || !waits {
		return nil, err
	}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		due = nil
		for e, err := range logouts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if parts := storage.Parts(e.Key); !e.Value.DueAt.After(now) {
				due = append(due, dueLogout{e.Key, parts[0], parts[1], parts[2], e.Value})
			}
		}
		slices.SortStableFunc(due, func(a, b dueLogout) int { return cmp.Compare(a.rec.Tries, b.rec.Tries) })
		due = due[:min(len(due), logoutBatch)]
		for i := range due {
			rec := &due[i].rec
			rec.DueAt = now.Add(min(logoutFirst<<rec.Tries, logoutMaxWait))
			rec.Tries++
			if err := logouts.Put(tx, due[i].key, *rec, never); err != nil {
				return err
			}
		}
		return nil
	})
	return due, err
}

// sendLogout makes one try. What was taken, and what was tried often enough, is done with.
func (s *Server) sendLogout(ctx context.Context, d dueLogout) {
	c, err := s.findClient(ctx, d.clientID)
	gone := errors.Is(err, storage.ErrNotFound) || (err == nil && (c.Disabled || c.BackchannelLogoutURI == ""))
	if err == nil && !gone {
		err = s.postLogout(ctx, c, d)
	}
	fields := []zap.Field{zap.String("client_id", d.clientID), zap.String("session_id", d.session), zap.Int("tries", d.rec.Tries), zap.Error(err)}
	if err != nil && !gone {
		if ctx.Err() != nil || d.rec.Tries < logoutTries {
			s.Log.Warn("logout token not taken; it is sent again", fields...)
			return
		}
		s.Log.Error("logout token not taken; given up", fields...)
	}
	if err := s.Store.Update(ctx, func(tx storage.Tx) error { return logouts.Delete(tx, d.key) }); err != nil && ctx.Err() == nil {
		s.Log.Error("sent logout token not crossed off; it is sent again", zap.String("client_id", d.clientID), zap.Error(err))
	}
}

// postLogout sends a logout token. (Back-Channel Logout 2.5, 2.8)
func (s *Server) postLogout(ctx context.Context, c *Client, d dueLogout) error {
	id, err := secret.ID(s.Random, 16)
	if err != nil {
		return err
	}
	now := s.now()
	token, err := s.Keys.Sign(c.IDTokenAlg, typLogout, logoutClaims{
		Issuer: s.cfg.Issuer, Subject: s.subjectFor(c, d.person), Audience: c.ID, IssuedAt: now.Unix(), Expires: now.Add(logoutLifetime).Unix(), ID: id,
		Events: map[string]struct{}{logoutEvent: {}}, Session: d.session,
	})
	if err != nil {
		return err
	}
	body := strings.NewReader(url.Values{"logout_token": {token}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BackchannelLogoutURI, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", formType)
	res, err := s.outboundFor(c).Do(req)
	if err != nil {
		return fmt.Errorf("post logout token: %w", errors.Unwrap(err)) // without the URL, which may hold a secret of the client's
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

// outboundFor returns what makes requests to a client: its addresses are trusted as the operator has written them in the configuration;
// those of a client that was added since must be public.
func (s *Server) outboundFor(c *Client) *http.Client {
	if s.clients.fixed[c.ID] != nil {
		return s.trusted
	}
	return s.untrusted
}

// LogoutFrames returns the addresses that the page after a sign-out loads in frames, so that the clients of the session clear
// their own. (OpenID Connect Front-Channel Logout 1.0, 2)
func (s *Server) LogoutFrames(ctx context.Context, person, session string) (frames []string, err error) {
	err = s.view(ctx, func(tx storage.Tx) error {
		frames = nil
		for e, err := range visits.Scan(tx, storage.Range{Prefix: storage.Prefix(person, session)}) {
			if err != nil {
				return err
			}
			c, err := s.clients.get(tx, storage.Parts(e.Key)[2])
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if c.FrontchannelLogoutURI != "" && !c.Disabled {
				frames = append(frames, withQuery(c.FrontchannelLogoutURI, url.Values{"iss": {s.cfg.Issuer}, "sid": {session}}))
			}
		}
		return nil
	})
	return frames, err
}
