package protect

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// App passwords at a site. What they are is for package personal to say.
// (docs/decisions/introspection.md#app-passwords)

// basicChallenge makes programs such as Git ask for a username and password. (RFC 7617 2)
const basicChallenge = `Basic realm="gatehouse", charset="UTF-8"`

const acceptAppPasswords = "app_passwords"

var checkAccept = caddyfileutil.OneOf(acceptAppPasswords)

// notTaken says why a Basic header counts for nothing.
type notTaken struct {
	reason refusals.Reason
	text   string
}

var (
	notAnAppPassword = &notTaken{refusals.NotAnAppPassword, "an app password is required: the password of the account is not accepted here"}
	fromAnotherSite  = &notTaken{
		refusals.OtherOrigin,
		"a username and password that the browser adds to a request of another site do not count",
	}
)

// appPasswordSites are the sites of this handler that accept app passwords. A person can choose the scopes that the
// site asks for.
func (p *Protect) appPasswordSites() (out []apppassword.Site) {
	if !p.accepts {
		return nil
	}
	scopes := p.everyScope()
	for _, sites := range p.sites {
		for _, s := range sites {
			if !slices.ContainsFunc(out, func(have apppassword.Site) bool { return have.Origin == s.origin }) {
				out = append(out, apppassword.Site{Origin: s.origin, Scopes: scopes, Groups: p.Groups, Partitions: p.Partitions})
			}
		}
	}
	slices.SortFunc(out, func(a, b apppassword.Site) int { return strings.Compare(a.Origin, b.Origin) })
	return out
}

// everyScope are the scopes that some request at the site needs.
func (p *Protect) everyScope() []string {
	scopes := slices.Concat(p.Scopes, p.Need.Scopes)
	for _, rule := range slices.Concat(p.fixed.rules.Allow, p.fixed.rules.Deny) {
		scopes = append(scopes, rule.Need.Scopes...)
	}
	return scopes
}

// appPasswordSite returns the origin of the site where a request brings an app password. "": an unknown
// site, or another credential.
func (p *Protect) appPasswordSite(r *http.Request, text string) string {
	if !p.accepts || !secret.IsToken(secret.AppPassword, text) {
		return ""
	}
	if s := p.siteOf(r); s != nil {
		return s.origin
	}
	return ""
}

// basic returns the app password of a Basic header; any username goes with it. wrong says that the header holds
// something else, such as the password of an account, which no one looks at: guessing there counts against no one and
// finds nothing. What a browser adds to requests that another site causes does not count, so a password which it has
// remembered gives other sites no rights.
func (p *Protect) basic(g *requestState, rec *credentials) (text string, wrong bool) {
	password, is := rec.basic()
	switch {
	case !is:
		return "", false
	case p.fromAnotherSite(g.r):
		g.basic = fromAnotherSite
		return "", false
	case !secret.IsToken(secret.AppPassword, password):
		g.basic = notAnAppPassword
		return "", true
	}
	return password, false
}

// basic returns the password of a Basic header. is reports whether there is one, malformed or not. (RFC 7617 2)
func (rec *credentials) basic() (password string, is bool) {
	if len(rec.authorization) != 1 {
		return "", false
	}
	const scheme = "basic "
	v := rec.authorization[0]
	if len(v) < len(scheme) || !strings.EqualFold(v[:len(scheme)], scheme) {
		return "", strings.EqualFold(strings.TrimSpace(v), strings.TrimSpace(scheme))
	}
	if len(v) > maxBearer {
		return "", true
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(v[len(scheme):]))
	if err != nil {
		return "", true
	}
	_, password, _ = strings.Cut(string(raw), ":")
	return password, true
}

// fromAnotherSite reports whether a browser sends the request because of a page of another site. Programs say nothing
// of the kind. (Fetch Metadata Request Headers 2.3; RFC 6454 7)
func (p *Protect) fromAnotherSite(r *http.Request) bool {
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 {
		return len(site) > 1 || site[0] != "same-origin" && site[0] != "none"
	}
	if origin := r.Header["Origin"]; len(origin) > 0 {
		s := p.siteOf(r)
		return len(origin) > 1 || s == nil || origin[0] != s.origin
	}
	return false
}

// offersBasic reports whether a refusal asks for an app password by Basic. A browser would show a prompt of its own
// over a page whose session has ended, so requests of pages do not get it, nor do people at sites where they can sign
// in.
func (p *Protect) offersBasic(r *http.Request, f *refusal) bool {
	if !p.accepts || f.code != "unauthorized" && f.code != "invalid_token" {
		return false
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && (len(site) > 1 || site[0] != "none") {
		return false
	}
	return len(r.Header["Origin"]) == 0 && len(r.Header["Referer"]) == 0 && !(p.Login && web.OpensPage(r))
}

// strips reports whether the Authorization header is kept from the upstream. An app password always is: who has it can
// use it for a long time. Where app passwords are accepted, Basic is not the upstream's.
func (p *Protect) strips(rec *credentials) bool {
	text, _, bad := rec.bearer()
	if text != "" || bad != nil {
		return p.StripToken || secret.IsToken(secret.AppPassword, text)
	}
	password, is := rec.basic()
	return is && (p.accepts || secret.IsToken(secret.AppPassword, password))
}
