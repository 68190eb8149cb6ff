package protect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// maxDrain is the number of bytes of a refused request's body that the server reads, so the connection can be used
// again.
const maxDrain = 256 << 10

// refusal is an answer that keeps a request from the upstream.
type refusal struct {
	reason     refusals.Reason // empty: the request is malformed
	status     int
	code, text string // error and error_description
	challenge  string // parameters of WWW-Authenticate after the realm; set for 401
	page       string // message of the page that browsers get
	again      string // same-origin link of the page
	againLabel string // message on it. Empty: the usual one
	signIn     string // where a browser begins a sign-in, for scripts
	said       string // the operator's own text, in place of the page's and the description
	cause      error  // for the log

	wait    time.Duration       // until it can pass. 0: soon
	limited *ratelimits.Refused // nil: something else has refused it
}

func malformed(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "invalid_request", text: text, page: "error.bad_request"}
}

// unknownSite refuses a request whose host the site does not have.
var unknownSite = refusal{
	reason: refusals.UnknownSite, status: http.StatusMisdirectedRequest, code: "invalid_request",
	text: "the site is not known under this host", page: "error.bad_request",
}

// by sets the reason of the refusal.
func (f *refusal) by(reason refusals.Reason) *refusal {
	f.reason = reason
	return f
}

// cannotTell refuses a request whose credential could not be looked up.
func cannotTell(cause error) *refusal {
	return &refusal{
		reason: refusals.ReasonOf(cause, refusals.Unavailable), status: http.StatusServiceUnavailable,
		code: "temporarily_unavailable", text: "try again later", page: "error.unavailable", cause: cause,
	}
}

// reasons of the verdicts.
var reasons = map[verdict]refusals.Reason{
	noCredentials: refusals.NoCredentials, inactive: refusals.TokenInactive, elsewhere: refusals.TokenElsewhere,
	unnamed: refusals.TokenUnnamed, tooOld: refusals.SignInTooOld,
	tooLow: refusals.LevelTooLow, unassured: refusals.AssuranceTooLow, unbound: refusals.DeviceUnbound,
	scopeMissing: refusals.ScopeMissing, notInGroup: refusals.GroupMissing,
	notInPartition: refusals.PartitionOther, needUnmet: refusals.NeedUnmet, ruleDenied: refusals.RuleDenied, noRule: refusals.NoRule,
}

// refusalOf returns the refusal for a verdict about the credential of a request.
func (p *Protect) refusalOf(g *requestState, v verdict) *refusal {
	asked := p.demandOf(g)
	if p.MCP != nil && begins(v) {
		for _, name := range p.MCP.FirstScopes() {
			if !slices.Contains(asked.scopes, name) {
				asked.scopes = append(slices.Clip(asked.scopes), name)
			}
		}
	}
	f := p.challengeOf(v, asked)
	switch f.reason = reasons[v]; {
	case g.basic != nil && (v == noCredentials || v == inactive):
		f.reason, f.text = g.basic.reason, g.basic.text
	case v == inactive && g.site != nil:
		f.reason = refusals.SessionEnded
	}
	return f
}

// challengeOf returns the answer for a verdict. asked is what was asked of the request.
func (p *Protect) challengeOf(v verdict, asked demand) *refusal {
	scope := ""
	if len(asked.scopes) > 0 {
		scope = `, scope="` + strings.Join(asked.scopes, " ") + `"`
	}
	switch v {
	case noCredentials:
		// RFC 6750 3.1: a request without any credentials gets no error code in the challenge
		return &refusal{
			status: http.StatusUnauthorized, code: "unauthorized", text: "a bearer token is required",
			challenge: scope, page: "error.denied",
		}
	case elsewhere:
		return &refusal{
			status: http.StatusUnauthorized, code: "invalid_token", text: "the token is meant for another resource",
			challenge: errorParams("invalid_token", "the token is meant for another resource") + scope, page: "error.denied",
		}
	case unnamed:
		const code, text = "invalid_token", "this site does not accept tokens of this kind"
		return &refusal{status: http.StatusUnauthorized, code: code, text: text, challenge: errorParams(code, text) + scope, page: "error.denied"}
	case tooLow, tooOld:
		// RFC 9470 3
		const code, text = "insufficient_user_authentication", "a different authentication level is required"
		params := errorParams(code, text) + scope
		if asked.level > 0 {
			params += `, acr_values="urn:gatehouse:level:` + strconv.Itoa(asked.level) + `"`
		}
		if v == tooOld {
			params += `, max_age=` + strconv.Itoa(int(asked.maxAge.Seconds()))
		}
		return &refusal{status: http.StatusUnauthorized, code: code, text: text, challenge: params, page: "error.denied"}
	case scopeMissing:
		const code, text = "insufficient_scope", "the token lacks a scope that is required here"
		return &refusal{status: http.StatusForbidden, code: code, text: text, challenge: errorParams(code, text) + scope, page: "error.denied"}
	case unassured:
		const code, text = "access_denied", "the identity of the person is not assured at the level that is required here"
		return &refusal{status: http.StatusForbidden, code: code, text: text, challenge: errorParams(code, text), page: "error.assurance"}
	case unbound:
		const code, text = "access_denied", "the session is not bound to a device, which is required here"
		return &refusal{status: http.StatusForbidden, code: code, text: text, challenge: errorParams(code, text), page: "error.unbound"}
	case notInGroup, notInPartition, needUnmet, ruleDenied, noRule:
		return ruleRefusal(asked)
	}
	const code, text = "invalid_token", "the token is expired, revoked or unknown"
	return &refusal{status: http.StatusUnauthorized, code: code, text: text, challenge: errorParams(code, text) + scope, page: "error.denied"}
}

func errorParams(code, text string) string {
	return `, error="` + code + `", error_description="` + text + `"`
}

// turnAway is the end of a request that must not pass. A browser is sent to sign in, or to sign in at a higher level,
// if that can help.
func (p *Protect) turnAway(g *requestState, v verdict) (progress, *refusal) {
	rec := g.judging.rec
	if g.site != nil && slices.Contains([]verdict{noCredentials, inactive, tooOld, tooLow}, v) && isNavigation(g.r) {
		g.reason = reasons[v]
		p.countKept(g.entrance.Counter, "sign_in", g.reason)
		g.counted.Tell(g.Header())
		p.signIn(g, rec, g.entrance.Authority, authz.SiteDemand{Return: g.returnTo(requestURI(g.r))})
		return answered, nil
	}
	f := p.refusalOf(g, v)
	if v == unbound {
		p.awaitDevice(g)
	}
	if g.site != nil && f.status == http.StatusUnauthorized {
		// A form that was sent after the session had ended. Its data would be lost by the redirect to the sign-in.
		f.page, f.again, f.againLabel = "error.session_ended", p.referringPage(g), "signed_out.again"
		f.signIn = g.site.origin + signInPath + "?" + toParam(f.again)
		if to := p.park(g, rec); to != "" {
			f.page, f.again = "error.kept", to
		}
	}
	return refuse(f)
}

// referringPage returns the path of the page of this site on which a form or link was used, or of the start page.
func (p *Protect) referringPage(g *requestState) string {
	if from, err := url.Parse(g.r.Header.Get("Referer")); err == nil && from.Scheme+"://"+from.Host == g.site.origin &&
		!strings.HasPrefix(from.Path, ownPrefix) {
		query, _ := sitepath.CutParam(from.RawQuery, authz.SiteCodeParam)
		if to := (&url.URL{Path: from.Path, RawPath: from.RawPath, RawQuery: query}).RequestURI(); isPlainTarget(to) && web.LocalPath(to) != "" {
			return to
		}
	}
	return "/"
}

// writeRefusal writes a refusal, logs it and returns false. Browsers that open a page get one.
func (p *Protect) writeRefusal(g *requestState, f *refusal) bool {
	w, r := g.ResponseWriter, g.r
	h := w.Header()
	if f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests {
		ratelimit.RetryAfter(w, cmp.Or(f.wait, ratelimit.Soon))
	}
	g.counted.Tell(h)
	switch {
	case f.status == http.StatusUnauthorized, f.challenge != "":
		challenge := p.realm + f.challenge
		if p.MCP != nil {
			challenge = p.MCP.Challenge(h, r, challenge)
		}
		h.Set("WWW-Authenticate", challenge) // RFC 6750 3
		if p.offersBasic(r, f) {
			h.Add("WWW-Authenticate", basicChallenge)
		}
		p.askProof(g, f)
	case f.status == http.StatusMethodNotAllowed:
		h.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	}
	if g.upgrade || (r.ProtoMajor == 1 && (r.ContentLength < 0 || r.ContentLength > maxDrain || len(r.Header["Expect"]) > 0)) {
		// RFC 9931: bytes sent ahead in the hope of an upgrade are not a request. And a body of unknown length is not
		// read to its end, nor one that the client holds back until it is asked for.
		h.Set("Connection", "close")
	}
	ref := refusals.NewRef(p.random)
	refusals.Tell(h, ref)
	if p.Login && f.page != "" && web.OpensPage(r) {
		p.page(g, f, ref)
	} else {
		writeRefusal(w, r, f, ref)
	}
	p.record(g, f, ref)
	return false
}

// wantedGroups returns the groups of which one was required: those of the rule that decided, or of the site.
func (p *Protect) wantedGroups(g *requestState) []string {
	if need := g.decision.Need; need != nil && len(need.Groups) > 0 {
		return need.Groups
	}
	return p.Groups
}

// record logs and keeps a refusal.
func (p *Protect) record(g *requestState, f *refusal, ref string) {
	r, asked := g.r, p.demandOf(g)
	out := refusals.Refusal{
		Ref: ref, Where: refusals.Site, Reason: cmp.Or(f.reason, refusals.Malformed), Detail: f.text, Status: f.status, Code: f.code,
		Site: r.Host, Method: r.Method, Path: original(r).Path,
		WantedGroups: p.wantedGroups(g), WantedScopes: asked.scopes, WantedLevel: asked.level,
	}
	out.Scheme, _, _ = strings.Cut(askedAt(g), "://")
	for _, r := range reasons {
		if out.Reason == r {
			out.Detail = "" // it would say the same
		}
	}
	if asked.rule != nil {
		out.Detail = "rule: " + asked.rule.Label()
	}
	if out.Reason == refusals.AssuranceTooLow {
		out.Detail = p.assuranceText(g)
	}
	if who := g.who; who != nil && who.Active {
		out.ClientID, out.Provider, out.Scopes, out.Level = who.ClientID, who.Provider, who.Scope, who.Level
		if who.Person != nil {
			out.PersonID, out.Username, out.Groups = who.Person.ID, who.Person.Username, who.Person.Groups
		}
	}
	g.reason = out.Reason
	in, _ := g.open() //nolint:errcheck // what cannot be kept is logged
	p.countKept(in.Counter, "refused", out.Reason)
	in.Refusals.Refuse(r.Context(), p.log, out, f.cause, zap.String("client_ip", p.origin(r).ClientIP))
}

// assuranceText tells operators which identity assurance level is missing.
func (p *Protect) assuranceText(g *requestState) string {
	is := 0
	if g.who != nil {
		is = g.who.Assurance(p.now())
	}
	return fmt.Sprintf("needs identity assurance level %d; has %d", p.demandOf(g).assurance, is)
}

func writeRefusal(w http.ResponseWriter, r *http.Request, f *refusal, ref string) {
	body, err := json.Marshal(struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
		LoginURL    string `json:"login_url,omitempty"`
		Ref         string `json:"ref,omitempty"`
	}{f.code, f.text, f.signIn, ref})
	kind := "application/json;charset=UTF-8"
	if f.limited != nil {
		kind = "application/problem+json"
		body, err = problemOf(f, ref)
	}
	if err != nil {
		body = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		w.Write(body) //nolint:errcheck // the client went away
	}
}
