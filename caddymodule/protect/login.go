package protect

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/sitesession"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// The browser's side of protect. A navigation without a session becomes a flow at the issuer, bound to a cookie that is
// set here before the redirect; the browser comes back to the same URL with a one-time code, which is exchanged in
// process for a session of this site.

const (
	kindSession = sitesession.Cookie
	kindTries   = "tries" // number of codes that have arrived within triesFor, to end loops

	triesFor = 30 * time.Second
	maxTries = 3
	// maxKept is the limit for a browser that keeps the session of the site: people sign in and out a few times in a row.
	maxKept = 10

	ownRoot    = "/.gatehouse"
	ownPrefix  = ownRoot + "/" // paths of a site with login that never reach the upstream
	logoutPath = ownPrefix + "logout"
	assetsPath = ownPrefix + "assets/"
	switchPath = ownPrefix + "another-account" // ?to=, a path of the site
	signInPath = ownPrefix + "sign-in"         // the same
	// languagePath is the language switch of the pages at a site: ?to=, a language, and back=, a path of the site.
	languagePath = ownRoot + web.LanguagePath
	// callbackPath?to= is the return address of browsers whose proxy drops the cookies of other responses.
	callbackPath = ownPrefix + "callback"

	maxReturn  = 8 << 10 // bytes of a URL that a browser returns to
	minBinding = 43      // characters of a value that no one can guess
)

// site is one origin under which browsers see a protected site.
type site struct {
	origin string // https://wiki.example.com
	scheme string
	jar    cookie.Jar
}

// setSites prepares the origins, found by the Host header.
func (p *Protect) setSites() error {
	p.sites = map[string][]*site{}
	origins := p.Origins
	if (p.Assertion != "" || p.accepts) && !p.Login {
		origins = p.Sites
	}
	for i, o := range origins {
		u, err := caddyfileutil.ParseIssuer(o)
		if err != nil {
			return err
		}
		o = u.Scheme + "://" + u.Host
		origins[i] = o
		s := &site{origin: o, scheme: u.Scheme, jar: cookie.For(o)}
		p.sites[u.Host] = append(p.sites[u.Host], s)
		if u.Port() == "" { // a client may name the port that is the default
			host := u.Host + ":" + map[string]string{"http": "80", "https": "443"}[u.Scheme]
			p.sites[host] = append(p.sites[host], s)
		}
	}
	return nil
}

// siteOf returns the origin under which the browser sees this request, or nil when the host is unknown.
func (p *Protect) siteOf(r *http.Request) *site {
	found := p.sites[r.Host]
	if found == nil {
		found = p.sites[strings.ToLower(r.Host)]
	}
	if len(found) < 2 {
		if len(found) == 1 {
			return found[0]
		}
		return nil
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// cleanse has deleted the header unless a trusted proxy sent it
	if v := r.Header.Get("X-Forwarded-Proto"); v == "http" || v == "https" {
		scheme = v
	}
	if i := slices.IndexFunc(found, func(s *site) bool { return s.scheme == scheme }); i >= 0 {
		return found[i]
	}
	return found[0]
}

// isNavigation reports whether a browser opens a page by its address: only then can it be sent to sign in.
func isNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && web.OpensPage(r)
}

// originalTarget returns the request target byte for byte.
func originalTarget(r *http.Request) string {
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return orig.RequestURI
	}
	return r.RequestURI
}

// isPlainTarget reports whether a target is a path and query that a browser would send and read in the same way.
func isPlainTarget(s string) bool {
	if s == "" || s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// original returns the URL as the client asked for it, before rewrites and handle_path.
func original(r *http.Request) *url.URL {
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && orig.URL != nil {
		return orig.URL
	}
	return r.URL
}

// requestURI returns path and query as the client asked for them, without the reserved parameter.
func requestURI(r *http.Request) string {
	u := original(r)
	path, rawQuery, asked := strings.Cut(u.RequestURI(), "?")
	if raw := originalTarget(r); isPlainTarget(raw) {
		path, rawQuery, asked = strings.Cut(raw, "?")
	}
	query, codes := sitepath.CutParam(rawQuery, authz.SiteCodeParam)
	if asked && (query != "" || codes == nil) {
		return path + "?" + query
	}
	return path
}

// ownPath serves Gatehouse's own paths on a site with login. true: the request has been answered.
func (p *Protect) ownPath(g *requestState, rec *credentials) bool {
	u := original(g.r)
	_, codes := sitepath.CutParam(u.RawQuery, authz.SiteCodeParam)
	own := strings.HasPrefix(u.Path, ownPrefix)
	if codes == nil && !own {
		return false
	}
	if codes != nil {
		caddyhttp.SetVar(g.r.Context(), caddyhttp.LogSkipVar, true) // the access log would keep the code; a line without it follows
	}
	if g.site = p.siteOf(g.r); g.site == nil {
		p.writeRefusal(g, &unknownSite)
		return true
	}
	web.HoldToHTTPS(g.Header(), g.site.origin)
	in, err := g.open()
	switch {
	case err != nil:
		p.writeRefusal(g, cannotTell(err))
	case own && dbsc.Handles(u.Path):
		p.serveDevice(g, rec, in)
	case own && u.Path == logoutPath:
		p.logout(g, rec, in.Authority)
	case own && u.Path == authz.SiteSignedOut && isNavigation(g.r):
		p.signedOut(g, rec, in)
	case own && u.Path == switchPath && isNavigation(g.r):
		p.signIn(g, rec, in.Authority, authz.SiteDemand{Return: g.returnTo(wanted(u)), Another: true})
	case own && u.Path == signInPath && isNavigation(g.r):
		p.signIn(g, rec, in.Authority, authz.SiteDemand{Return: g.returnTo(wanted(u))})
	case own && u.Path == languagePath && isNavigation(g.r):
		p.pages(in, g.site).ShowLanguage(g.ResponseWriter, asSent(g.r))
	case own && u.Path == callbackPath && isNavigation(g.r):
		if codes == nil {
			web.Redirect(g.ResponseWriter, g.site.origin+wanted(u))
		} else {
			p.finish(g, rec, in.Authority, codes)
		}
	case own && u.Path == accessPath && p.asks && in.Access != nil:
		p.askAccess(g, rec, in)
	case own && strings.HasPrefix(u.Path, assetsPath):
		r := g.r.Clone(g.r.Context())
		r.URL.Path, r.URL.RawPath = strings.TrimPrefix(u.Path, ownRoot), ""
		p.pages(in, g.site).Assets().ServeHTTP(g.ResponseWriter, r)
	case own:
		p.writeRefusal(g, &refusal{
			reason: refusals.NotFound, status: http.StatusNotFound, code: "invalid_request", text: "there is nothing here",
			page: "error.not_found",
		})
	case !isNavigation(g.r):
		p.writeRefusal(g, malformed("a sign-in ends with a navigation"))
	default:
		p.finish(g, rec, in.Authority, codes)
	}
	return true
}

// wanted returns the path of the site that the parameter to names, or that of the start page.
func wanted(u *url.URL) string {
	to := u.Query().Get("to")
	if !isPlainTarget(to) || web.LocalPath(to) == "" {
		return "/"
	}
	return to
}

func toParam(target string) string { return "to=" + url.QueryEscape(target) }

// signIn sends the browser to the issuer, to come back to the demand's Return.
func (p *Protect) signIn(g *requestState, rec *credentials, auth authority, d authz.SiteDemand) bool {
	w, r, s := g.ResponseWriter, g.r, g.site
	web.HoldToHTTPS(w.Header(), s.origin)
	if len(d.Return) > maxReturn {
		return p.writeRefusal(g, &refusal{
			reason: refusals.TooLong, status: http.StatusRequestURITooLong, code: "invalid_request",
			text: "the address is too long to come back to", page: "error.bad_request",
		})
	}
	most := maxTries
	if rec.cookie(s.jar, kindSession) != "" {
		most = maxKept
	}
	if p.tries(rec, s) >= most {
		s.jar.Clear(w, kindTries)
		return p.writeRefusal(g, &refusal{
			reason: refusals.CookiesMissing, status: http.StatusBadRequest, code: "invalid_request",
			text: "the browser does not keep the site's session", page: "error.expired", again: requestURI(r),
		})
	}
	if in := g.entrance; in.Admit != nil && !in.Admit(r, len(d.Return)) {
		return p.writeRefusal(g, &refusal{
			reason: refusals.TooManyBegun, status: http.StatusTooManyRequests, code: "temporarily_unavailable",
			text: "too much was begun from this network", page: "error.unavailable",
		})
	}
	g.forgetSecond(rec)
	binding, err := p.browser(g, rec)
	if err != nil {
		return p.writeRefusal(g, cannotTell(err))
	}
	asked := p.demandOf(g)
	d.Origin, d.Level, d.MaxAge = s.origin, asked.level, asked.maxAge
	to, err := auth.BeginSite(r.Context(), d, binding)
	if err != nil {
		if e := new(oauth.Error); errors.As(err, &e) && e.Status < http.StatusInternalServerError {
			return p.writeRefusal(g, &refusal{
				reason: refusals.Malformed, status: http.StatusBadRequest, code: e.Code, text: e.Description,
				page: "error.bad_request", cause: err,
			})
		}
		return p.writeRefusal(g, cannotTell(err))
	}
	web.RedirectStatus(w, to, http.StatusFound)
	return false
}

// browser returns the value that binds flows to this browser, and sets the cookie if the browser has none.
func (p *Protect) browser(g *requestState, rec *credentials) (string, error) {
	binding := rec.cookie(g.site.jar, cookie.KindBrowser)
	if len(binding) >= minBinding {
		return binding, nil
	}
	binding, err := secret.ID(p.random, 32)
	if err == nil {
		g.site.jar.Set(g.ResponseWriter, cookie.KindBrowser, binding, 0)
	}
	return binding, err
}

// finish exchanges the code that the browser brought for a session, and redirects to the URL without the code.
func (p *Protect) finish(g *requestState, rec *credentials, auth authority, codes []string) {
	w, r, s := g.ResponseWriter, g.r, g.site
	clean := s.origin + requestURI(r)
	tries := p.tries(rec, s)
	binding := rec.cookie(s.jar, cookie.KindBrowser)
	if binding != "" && len(codes) == 1 {
		got, err := auth.FinishSite(r.Context(), s.origin, codes[0], binding, p.origin(r))
		if err == nil {
			if strings.HasPrefix(got.Return, s.origin+"/") {
				clean = got.Return
			}
			if p.replay && got.MaxAge > 0 {
				got.MaxAge += keptCookie
			}
			s.jar.Set(w, kindSession, got.Token, got.MaxAge)
			s.jar.Set(w, kindTries, strconv.Itoa(tries+1), triesFor)
			if err := p.devices(g.entrance, s).Offer(w.Header(), got.Token); err != nil {
				p.log.Warn("session not offered to be bound to its device", zap.Error(err))
			}
			p.log.Info("signed in at site", zap.String("origin", s.origin), zap.String("client_ip", p.origin(r).ClientIP))
			web.Redirect(w, clean)
			return
		}
		if e := new(oauth.Error); !errors.As(err, &e) || e.Code != "invalid_grant" {
			p.writeRefusal(g, cannotTell(err))
			return
		}
	}
	// The code is invalid here: another browser's, spent, or expired. A browser that is signed in already (the back
	// button) continues.
	c := siteCredential(s, rec)
	who, err := c.recheck(r.Context(), auth)
	switch {
	case err != nil:
		p.writeRefusal(g, cannotTell(err))
	case p.examine(who, true) == allowed:
		web.Redirect(w, clean)
	case binding == "" || tries > 0:
		s.jar.Clear(w, kindTries)
		p.writeRefusal(g, &refusal{
			reason: refusals.FlowExpired, status: http.StatusBadRequest, code: "invalid_request",
			text: "the sign-in is not this browser's, or too old", page: "error.expired", again: requestURI(r),
		})
	default:
		s.jar.Set(w, kindTries, "1", triesFor)
		p.signIn(g, rec, auth, authz.SiteDemand{Return: clean})
	}
}

func (p *Protect) tries(rec *credentials, s *site) int {
	n, err := strconv.Atoi(rec.cookie(s.jar, kindTries))
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxKept)
}

// logout ends the session of this site when the site or the person made the request, and redirects to the issuer's
// sign-out. That asks first, unless a page of this site made the request: a link on another site or in an e-mail gets
// no further than the question. (docs/decisions/gateway.md#site-sessions)
func (p *Protect) logout(g *requestState, rec *credentials, auth authority) {
	w, r, s := g.ResponseWriter, g.r, g.site
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		p.writeRefusal(g, &refusal{
			reason: refusals.MethodNotAllowed, status: http.StatusMethodNotAllowed, code: "invalid_request",
			text: "sign out by GET or POST", page: "error.method",
		})
		return
	case r.Method == http.MethodPost && !ownRequest(r, s):
		p.writeRefusal(g, &refusal{
			reason: refusals.FormRefused, status: http.StatusForbidden, code: "invalid_request",
			text: "the form is not this site's", page: "error.forbidden",
		})
		return
	}
	to := auth.LogoutURL(s.origin)
	if token := rec.cookie(s.jar, kindSession); ownRequest(r, s) && token != "" {
		everywhere, err := auth.EndSite(r.Context(), s.origin, token)
		if err != nil {
			p.writeRefusal(g, cannotTell(err))
			return
		}
		if from := r.Header["Sec-Fetch-Site"]; r.Method == http.MethodPost || len(from) == 1 && from[0] == "same-origin" {
			to = everywhere
		}
	}
	if ownRequest(r, s) {
		s.jar.Clear(w, kindSession)
		s.jar.Clear(w, kindTries)
		g.forgetSecond(rec)
	}
	web.Redirect(w, to)
}

// signedOut serves the page after a sign-out, with the way back to the site.
func (p *Protect) signedOut(g *requestState, rec *credentials, in Entrance) {
	c := siteCredential(g.site, rec)
	who, err := c.recheck(g.r.Context(), in.Authority)
	switch {
	case err != nil:
		p.writeRefusal(g, cannotTell(err))
	case who.Active: // the page of an earlier sign-out
		web.Redirect(g.ResponseWriter, g.site.origin+"/")
	default:
		p.pages(in, g.site).Render(g.ResponseWriter, asSent(g.r), web.View{Template: "signed_out", Data: web.SignedOut{Again: "/"}})
	}
}

// pages returns the renderer of pages at a site.
func (p *Protect) pages(in Entrance, s *site) *web.Renderer {
	return in.Pages.On(s.origin, ownRoot)
}

// asSent returns a request as its browser sent it, for a page: with our cookies, and the address without a code.
func asSent(r *http.Request) *http.Request {
	cookies := receive(r).cookies
	q := r.WithContext(r.Context())
	q.Header = r.Header.Clone()
	if q.Header["Cookie"] = cookies; len(cookies) == 0 {
		delete(q.Header, "Cookie")
	}
	if u, err := url.Parse(requestURI(r)); err == nil {
		q.URL = u
	}
	return q
}

// ownRequest reports whether a request was made by a page of this site or by the person: typed, or from a bookmark.
func ownRequest(r *http.Request, s *site) bool {
	if r.Method == http.MethodGet && unasked(r) {
		return false
	}
	if v := r.Header["Sec-Fetch-Site"]; len(v) > 0 {
		return len(v) == 1 && (v[0] == "same-origin" || (v[0] == "none" && r.Method == http.MethodGet))
	}
	origin := r.Header["Origin"]
	return len(origin) == 1 && origin[0] == s.origin
}

// unasked reports whether a browser has made a request that the person did not ask for: for a picture or a frame, which
// someone other than the owner can put into the page of a site, or for a page that the person may open next. (Fetch
// Metadata, Sec-Purpose)
func unasked(r *http.Request) bool {
	mode, dest := r.Header["Sec-Fetch-Mode"], r.Header["Sec-Fetch-Dest"]
	return len(mode) > 0 && (mode[0] == "no-cors" || mode[0] == "navigate" && len(dest) > 0 && dest[0] != "document") ||
		len(r.Header["Sec-Purpose"]) > 0 || len(r.Header["Purpose"]) > 0 || len(r.Header["X-Purpose"]) > 0 || len(r.Header["X-Moz"]) > 0
}

// page writes the page of a refusal.
func (p *Protect) page(g *requestState, f *refusal, ref string) {
	s := g.site
	if s == nil {
		s = p.siteOf(g.r)
	}
	in, err := g.open()
	if err != nil || in.Pages == nil || s == nil {
		writeRefusal(g.ResponseWriter, g.r, f, ref)
		return
	}
	out := web.Failure{Key: f.page, Text: f.said, Again: f.again, AgainLabel: f.againLabel, Ref: ref}
	if who := g.who; f.status == http.StatusForbidden && who != nil && who.Active && who.Person != nil {
		out.Account, out.Back = who.Person.Username, in.Pages.AccountURL()
		out.Another = switchPath + "?" + toParam(requestURI(g.r))
	}
	p.offerAccess(g, in, s, f, &out)
	p.pages(in, s).Fail(g.ResponseWriter, asSent(g.r), f.status, out)
}
