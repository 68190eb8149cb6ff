package authz

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SiteCodeParam is the reserved query parameter in which a browser carries the one-time code back to a site.
const SiteCodeParam = "gatehouse_code"

// SiteSignedOut is the path of a site's page that says that the person is signed out.
const SiteSignedOut = "/.gatehouse/signed-out"

// siteLogoutParam vouches for a sign-out that a person has asked for at a site. It is worthless for another session.
const siteLogoutParam = "site_request"

const (
	sitePath         = "/oauth/site"
	siteFlowLifetime = time.Hour        // how long a sign-in for a site can take
	siteFlowKept     = 24 * time.Hour   // how long after that the way back to the site is still known
	siteCodeLifetime = 60 * time.Second // from redirect to redirect
	siteCodeKept     = 24 * time.Hour   // how long a spent code stays, so a replay is detected
	// If a session lasts longer than rememberedFrom, the site's cookie outlives the browser window.
	rememberedFrom = 24 * time.Hour
)

// SiteDemand are the requirements of a protected site for a browser without a session.
type SiteDemand struct {
	Origin string        // of the site, as registered
	Return string        // the requested URL, on that origin
	Level  int           // least authentication level. 0: any
	MaxAge time.Duration // oldest sign-in. 0: any
	// Another asks the person to sign in again, with whichever account.
	Another bool
}

// SiteLogin is the response to a site for a one-time code.
type SiteLogin struct {
	Token  string        // value of the site's cookie
	Return string        // the clean URL to send the browser to
	MaxAge time.Duration // of the cookie. 0: until the browser closes
}

// BeginSite stores the demand and returns the issuer's URL to which the browser is sent. binding is the value of a
// cookie that the site sets on the same answer. An unregistered origin or a Return on another origin is an error.
func (s *Server) BeginSite(ctx context.Context, d SiteDemand, binding string) (string, error) {
	if !s.sites[d.Origin] {
		return "", fmt.Errorf("%q is not the origin of a site with login", d.Origin)
	}
	if !strings.HasPrefix(d.Return, d.Origin+"/") || strings.ContainsAny(d.Return, "#\r\n") || len(d.Return) > 16<<10 || binding == "" {
		return "", oauth.InvalidRequest(nil, "the URL cannot be returned to")
	}
	now := s.now()
	id, err := s.newID()
	if err != nil {
		return "", err
	}
	rec := siteFlowRecord{
		Origin: d.Origin, Return: d.Return, Binding: secret.Hash(binding), Level: d.Level, CreatedAt: now, ExpiresAt: now.Add(siteFlowLifetime),
		MaxAge: int64(d.MaxAge / time.Second), Another: d.Another,
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		return siteFlows.Create(tx, id, rec, rec.ExpiresAt.Add(siteFlowKept))
	})
	return s.cfg.Issuer + sitePath + "?flow=" + url.QueryEscape(id), err
}

// handleSite serves GET /oauth/site: a browser on its way from a site to the sign-in and back.
// (docs/decisions/gateway.md#sites-with-login)
func (s *Server) handleSite(w http.ResponseWriter, r *http.Request) error {
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	id := query.Get("flow")
	var flow siteFlowRecord
	err = s.view(r.Context(), func(tx storage.Tx) (err error) {
		flow, err = siteFlows.Get(tx, id)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrTooLarge) || (err == nil && !s.sites[flow.Origin]) {
		s.failPage(w, r, oauth.InvalidRequest(errExpired, "the sign-in has expired"), "error.expired", "")
		return nil
	}
	if err != nil {
		return err
	}
	if !flow.ExpiresAt.After(s.now()) {
		s.toSite(w, r, id, &flow, flow.Return) // which starts again with the same URL
		return nil
	}
	result, err := s.deps.Auth.Authenticate(w, r, s.siteDemand(id, &flow))
	refusal := new(authn.Refusal)
	switch {
	case errors.Is(err, authn.ErrResponded):
		return nil
	case errors.As(err, &refusal):
		s.failPage(w, r, &oauth.Error{Status: http.StatusForbidden, Code: refusal.Code, Description: refusal.Reason, Cause: refusal},
			"error.denied", "")
		return nil
	case err != nil:
		return oauth.StorageError(err)
	}
	code, err := s.issueSiteCode(r.Context(), id, &flow, result)
	if errors.As(err, &refusal) { // the session has just ended: start again, which asks to sign in
		web.RedirectStatus(w, sitePath+"?flow="+url.QueryEscape(id), http.StatusFound)
		return nil
	}
	if err != nil {
		return err
	}
	s.toSite(w, r, id, &flow, client.WithQuery(flow.Return, url.Values{SiteCodeParam: {code}}))
	return nil
}

// toSite sends the browser to a URL of the site, by way of a page if it keeps what is after # in the address.
func (s *Server) toSite(w http.ResponseWriter, r *http.Request, id string, flow *siteFlowRecord, to string) {
	if !s.deps.Pages.KeepsFragment(r, fragmentName(id)) {
		web.RedirectStatus(w, to, http.StatusFound)
		return
	}
	s.deps.Pages.Render(w, r, web.View{
		Template: "forward", Fragment: fragmentName(id),
		Data: web.Forward{Name: flow.host(), To: to, Last: true},
	})
}

// fragmentName is the name under which a browser keeps what is after # in the address. It does not tell the id.
func fragmentName(id string) string { return hex.EncodeToString([]byte(secret.Hash(id))[:8]) }

// host is the name of the site.
func (f *siteFlowRecord) host() string { return f.Origin[strings.Index(f.Origin, "://")+3:] }

func (s *Server) siteDemand(id string, flow *siteFlowRecord) authn.Demand {
	name := flow.host()
	d := authn.Demand{
		Level: flow.Level, MaxAge: -1, Return: sitePath + "?flow=" + url.QueryEscape(id), Fragment: fragmentName(id),
		Client: authn.Client{ID: flow.Origin, Name: name, Targets: []string{flow.Origin}},
	}
	if flow.Another {
		d.NotBefore = flow.CreatedAt
	}
	if flow.MaxAge > 0 {
		d.MaxAge = time.Duration(flow.MaxAge)*time.Second + max(0, s.now().Sub(flow.CreatedAt))
	}
	return d
}

func (s *Server) issueSiteCode(ctx context.Context, id string, flow *siteFlowRecord, result *authn.Result) (string, error) {
	now := s.now()
	code, err := secret.NewToken(s.deps.Random, secret.SiteCode)
	if err != nil {
		return "", err
	}
	err = s.update(ctx, func(tx storage.Tx) error {
		st, err := s.checkSignedIn(tx, "", result, now)
		if err != nil {
			return err
		}
		rec := siteCodeRecord{
			SignIn: token.NewSignIn(result), Epochs: st.Epochs, FlowID: id, Origin: flow.Origin, Binding: flow.Binding, Return: flow.Return,
			ExpiresAt: now.Add(siteCodeLifetime),
		}
		return siteCodes.Create(tx, secret.Hash(code), rec, rec.ExpiresAt.Add(siteCodeKept))
	})
	return code, err
}

// FinishSite exchanges a one-time code for a session at the site. The code is valid once, for 60 seconds, at the site
// and in the browser that began. Otherwise FinishSite returns an *oauth.Error invalid_grant, burns the code, and ends
// the session that it opened before, if it did.
func (s *Server) FinishSite(ctx context.Context, origin, code, binding string, from audit.Origin) (SiteLogin, error) {
	refused := oauth.InvalidGrant(nil, "the code is not good here")
	if !secret.IsToken(secret.SiteCode, code) {
		return SiteLogin{}, refused
	}
	now, hash := s.now(), secret.Hash(code)
	text, err := secret.NewToken(s.deps.Random, secret.SiteSession)
	if err != nil {
		return SiteLogin{}, err
	}
	replayed, err := s.deps.Events.New(grant.EventCodeReplayed, from)
	if err != nil {
		return SiteLogin{}, err
	}
	var out SiteLogin
	err = s.update(ctx, func(tx storage.Tx) error {
		out = SiteLogin{}
		rec, found, err := siteCodes.Find(tx, hash)
		if err != nil || !found {
			return err
		}
		kept := rec.ExpiresAt.Add(siteCodeKept)
		if rec.Spent {
			if rec.SiteSession == "" {
				return nil
			}
			replayed.PersonID, replayed.SessionID = rec.Subject, rec.SessionID
			if err := s.siteSessions.Drop(tx, rec.SiteSession); err != nil {
				return err
			}
			rec.SiteSession = "" // one event is enough
			if err := siteCodes.Put(tx, hash, rec, kept); err != nil {
				return err
			}
			return s.deps.Events.Append(tx, replayed)
		}
		rec.Spent = true
		maxAge, good, err := s.checkSiteCode(tx, &rec, origin, binding, now)
		if err != nil {
			return err
		}
		if good {
			rec.SiteSession = secret.Hash(text)
			if err := s.siteSessions.Create(tx, rec.SiteSession, origin, rec.SignIn, rec.Epochs, now); err != nil {
				return err
			}
			out = SiteLogin{Token: text, Return: rec.Return, MaxAge: maxAge}
		}
		return siteCodes.Put(tx, hash, rec, kept)
	})
	if err == nil && out.Token == "" {
		err = refused
	}
	return out, err
}

// checkSiteCode reports whether a code is good here, and how long the cookie lives that it opens a session with.
func (s *Server) checkSiteCode(tx storage.Tx, rec *siteCodeRecord, origin, binding string,
	now time.Time,
) (maxAge time.Duration, good bool, err error) {
	if !rec.ExpiresAt.After(now) || rec.Origin != origin || !secret.New(rec.Binding).Equal(secret.Hash(binding)) {
		return 0, false, nil
	}
	st, good, err := s.tokens.CheckStanding(tx, "", rec.Subject)
	if err != nil || !good || st.Epochs != rec.Epochs {
		return 0, false, err
	}
	session, err := s.deps.Subjects.Session(tx, rec.SessionID, now)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil || session.Epoch != st.Subject.Epoch {
		return 0, false, err
	}
	if left := session.Ends.Sub(now); left > rememberedFrom {
		maxAge = left
	}
	return maxAge, true, nil
}

// SiteSession returns the person of a site's cookie, and of its second one. See sitesession.Sessions.Find.
func (s *Server) SiteSession(ctx context.Context, origin, text, second string) (*token.Introspection, error) {
	return s.siteSessions.Find(ctx, origin, text, second)
}

// SiteDevices returns how the browsers of a site bind their sessions to a device. See sitesession.Sessions.Devices.
func (s *Server) SiteDevices(origin string, offered bool, noted func(dbsc.Outcome)) *dbsc.Exchange {
	return s.siteSessions.Devices(origin, offered, noted)
}

// ObserveSite is SiteSession, and returns what the answer rests on. See site.Sessions.Observe.
func (s *Server) ObserveSite(ctx context.Context, origin, text string) (*token.Introspection, recheck.Basis, error) {
	return s.siteSessions.Observe(ctx, origin, text)
}

// EndSite ends the session of a site's cookie, and returns the URL at which the browser signs out everywhere without a
// question. The issuer's session goes on until then.
func (s *Server) EndSite(ctx context.Context, origin, text string) (string, error) {
	if !secret.IsToken(secret.SiteSession, text) {
		return s.LogoutURL(origin), nil
	}
	hash, session := secret.Hash(text), ""
	err := s.update(ctx, func(tx storage.Tx) (err error) {
		session, err = s.siteSessions.Close(tx, hash, origin)
		return err
	})
	if err != nil || session == "" {
		return s.LogoutURL(origin), err
	}
	return client.WithQuery(s.LogoutURL(origin), url.Values{siteLogoutParam: {s.deps.Pages.CSRF(session, siteLogoutParam)}}), nil
}
