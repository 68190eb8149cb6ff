package protect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/savedforms"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/slowbody"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// A form that is sent after the session has ended is kept, and sent on after the sign-in. The page that asks has the
// address of the form with one more parameter, and its button posts there, so matchers, rewrites and rules see the same
// request as without it, and relative links of the answer work. (docs/decisions/gateway.md#kept-forms)

const (
	keptParam  = "gatehouse_kept" // id of a kept form
	keptCookie = 24 * time.Hour   // how long the cookie of an ended session still identifies its owner
	maxKind    = 200              // bytes of a Content-Type
)

// formStore keeps forms until their person has signed in. *savedforms.Forms is one.
type formStore interface {
	Former(ctx context.Context, origin, cookie string) (personID string, err error)
	Keep(ctx context.Context, origin, browser, personID string, form savedforms.Form) (id string, err error)
	Check(ctx context.Context, k savedforms.Key, personID string) error
	Take(ctx context.Context, k savedforms.Key, personID, target string) (savedforms.Form, error)
	Drop(ctx context.Context, k savedforms.Key) error
}

var (
	nothingKept = refusal{
		reason: refusals.NotFound, status: http.StatusGone, code: "invalid_request", text: "there is no form to send",
		page: "error.kept_gone", again: "/",
	}
	keptOfOther = refusal{
		reason: refusals.FormRefused, status: http.StatusForbidden, code: "access_denied",
		text: "the form belongs to another account", page: "error.kept_other", again: "/",
	}
)

var checkOnOff = caddyfileutil.OneOf("on", "off")

// park keeps the form of a request whose session has ended. It returns the address of the page that sends it, or "" if
// the form is not kept.
func (p *Protect) park(g *requestState, rec *credentials) string {
	r, s, keeper := g.r, g.site, g.entrance.SavedForms
	text := rec.cookie(s.jar, kindSession)
	target := requestURI(r)
	if !p.replay || keeper == nil || text == "" || g.kept != "" || !isForm(r) || !ownRequest(r, s) ||
		len(target) > maxReturn/2 || !isPlainTarget(target) || web.LocalPath(target) == "" {
		return ""
	}
	personID, err := keeper.Former(r.Context(), s.origin, text)
	if err != nil || personID == "" || g.entrance.Admit != nil && !g.entrance.Admit(r, 0) {
		return p.unkept(err)
	}
	// A stranger never gets this far.
	defer slowbody.Limit(g.ResponseWriter, r, slowbody.FormTime).Stop()
	body, err := io.ReadAll(io.LimitReader(r.Body, savedforms.MaxBody+1))
	if err != nil || len(body) > savedforms.MaxBody || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength || len(r.Trailer) > 0 {
		return ""
	}
	browser, err := p.browser(g, rec)
	if err != nil {
		return p.unkept(err)
	}
	form := savedforms.Form{Target: target, ContentType: r.Header["Content-Type"][0], Body: body}
	if from := r.Header["Referer"]; len(from) == 1 && p.referringPage(g) != "/" {
		form.Referer = s.origin + p.referringPage(g)
	}
	id, err := keeper.Keep(r.Context(), s.origin, browser, personID, form)
	if err != nil {
		return p.unkept(err)
	}
	p.log.Info("form kept", zap.String("origin", s.origin), zap.String("person_id", personID), zap.Int("bytes", len(body)),
		zap.String("client_ip", p.origin(r).ClientIP))
	return withParam(target, keptParam, id)
}

// unkept logs the failure by which a form is not kept, if any. The person gets the page of a site that keeps none.
func (p *Protect) unkept(cause error) string {
	if cause != nil {
		p.log.Warn("form not kept", zap.Error(cause))
	}
	return ""
}

// isForm reports whether a request is a form that a page has sent, small enough to be kept.
func isForm(r *http.Request) bool {
	kind := r.Header["Content-Type"]
	if r.Method != http.MethodPost || !web.OpensPage(r) || len(kind) != 1 || len(kind[0]) > maxKind || r.ContentLength > savedforms.MaxBody ||
		len(r.Header["Content-Encoding"]) > 0 || len(r.Trailer) > 0 || r.Body == nil {
		return false
	}
	media, params, err := mime.ParseMediaType(kind[0])
	switch {
	case err != nil:
		return false
	case media == "multipart/form-data":
		return params["boundary"] != ""
	}
	return media == "application/x-www-form-urlencoded"
}

func withParam(target, name, value string) string {
	sep := "?"
	if strings.Contains(target, "?") {
		sep = "&"
	}
	return strings.TrimSuffix(target, "?") + sep + name + "=" + value
}

// resume serves the page that asks whether a kept form is to be sent, and reads its answer. true: the request has been
// answered. Otherwise it goes on, and resend puts the form in its place once it may pass.
func (p *Protect) resume(g *requestState, rec *credentials) (answered bool) {
	_, ids := sitepath.CutParam(original(g.r).RawQuery, keptParam)
	if ids == nil {
		return false
	}
	if g.site = p.siteOf(g.r); g.site == nil {
		p.writeRefusal(g, &refusal{
			reason: refusals.UnknownSite, status: http.StatusMisdirectedRequest, code: "invalid_request",
			text: "the site is not known under this host", page: "error.bad_request",
		})
		return true
	}
	in, err := g.open()
	switch {
	case err != nil || in.SavedForms == nil:
		p.writeRefusal(g, cannotTell(err))
	case len(ids) != 1 || ids[0] == "":
		p.writeRefusal(g, malformed("one form is sent at a time"))
	case g.r.Method == http.MethodPost:
		return p.choose(g, rec, in, ids[0])
	case isNavigation(g.r):
		p.offer(g, rec, in, ids[0])
	default:
		p.writeRefusal(g, malformed("a kept form is sent from its page"))
	}
	return true
}

// keyOf names a form to this browser.
func (g *requestState) keyOf(rec *credentials, id string) savedforms.Key {
	return savedforms.Key{Origin: g.site.origin, Browser: rec.cookie(g.site.jar, cookie.KindBrowser), ID: id}
}

// keptPurpose returns the purpose of the token in the page's form.
func keptPurpose(k savedforms.Key) string { return "kept " + k.Origin + " " + k.ID }

// offer serves the page to the person who sent the form, once their sign-in is strong enough for its target.
func (p *Protect) offer(g *requestState, rec *credentials, in Entrance, id string) {
	c := siteCredential(g.site, rec)
	who, err := c.recheck(g.r.Context(), in.Authority)
	if err == nil {
		as := g.r.Clone(g.r.Context())
		as.Method = http.MethodPost
		err = p.selectRules(g, as)
	}
	if err != nil {
		p.writeRefusal(g, cannotTell(err))
		return
	}
	v, d := p.decide(g.rules, who, true)
	g.who, g.decision = who, d
	switch v {
	case allowed:
	case noCredentials, inactive, tooOld, tooLow:
		p.signIn(g, rec, in.Authority, authz.SiteDemand{Return: g.site.origin + requestURI(g.r)})
		return
	default:
		p.writeRefusal(g, p.refusalOf(g, v))
		return
	}
	key := g.keyOf(rec, id)
	if err := in.SavedForms.Check(g.r.Context(), key, who.Subject); err != nil {
		p.writeRefusal(g, keptRefusal(err))
		return
	}
	path, _, _ := strings.Cut(requestURI(g.r), "?")
	p.pages(in, g.site).Render(g.ResponseWriter, asSent(g.r), web.View{Template: "form", Data: web.Form{
		Key: "kept", Fill: []any{"page", path}, Action: requestURI(g.r), CSRF: in.Pages.CSRF(key.Browser, keptPurpose(key)),
		Other: &web.OtherButton{Name: "discard", Label: "kept.discard"}, Onward: true,
	}})
}

// choose reads the answer of the page: the form is to be sent, or deleted.
func (p *Protect) choose(g *requestState, rec *credentials, in Entrance, id string) (answered bool) {
	key, pages := g.keyOf(rec, id), p.pages(in, g.site)
	defer slowbody.Limit(g.ResponseWriter, g.r, slowbody.FormTime).Stop()
	if err := pages.CheckPost(g.r, key.Browser, keptPurpose(key)); err != nil {
		p.writeRefusal(g, &refusal{
			reason: refusals.FormRefused, status: http.StatusForbidden, code: "invalid_request", text: "the form is not this browser's",
			page: "error.forbidden", cause: err,
		})
		return true
	}
	if g.r.PostForm.Get("discard") == "" {
		g.kept = id
		return false
	}
	err := in.SavedForms.Drop(g.r.Context(), key)
	if err != nil && !errors.Is(err, savedforms.ErrGone) {
		p.writeRefusal(g, cannotTell(err))
		return true
	}
	web.Redirect(g.ResponseWriter, g.site.origin+"/")
	return true
}

func keptRefusal(err error) *refusal {
	f := *cannotTell(err)
	switch {
	case errors.Is(err, savedforms.ErrGone):
		f = nothingKept
	case errors.Is(err, savedforms.ErrOther):
		f = keptOfOther
	}
	f.cause = err
	return &f
}

// resend puts a kept form in the place of the request, which may pass. The form is gone from then on, so it is sent
// once at most.
func (p *Protect) resend(g *requestState, rec *credentials) *refusal {
	r := g.r
	if g.credential.site == nil {
		return malformed("a kept form is sent by a browser")
	}
	query, _ := sitepath.CutParam(original(r).RawQuery, keptParam)
	target := requestURI(r)
	if path, _, asked := strings.Cut(target, "?"); asked {
		if target = path; query != "" {
			target += "?" + query
		}
	}
	in := g.entrance
	form, err := in.SavedForms.Take(r.Context(), g.keyOf(rec, g.kept), g.who.Subject, target)
	if err != nil {
		return keptRefusal(err)
	}
	// The upstream gets the current headers of the browser, such as cookies of the application. Only the headers about the
	// body and the Referer are those of the kept form.
	for _, name := range []string{
		"Content-Encoding", "Content-Md5", "Content-Digest", "Digest", "Expect", "Referer",
		"Trailer", "Transfer-Encoding",
	} {
		delete(r.Header, name)
	}
	r.Header["Content-Type"] = []string{form.ContentType}
	r.Header["Content-Length"] = []string{strconv.Itoa(len(form.Body))}
	if form.Referer != "" {
		r.Header["Referer"] = []string{form.Referer}
	}
	r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = io.NopCloser(bytes.NewReader(form.Body)), int64(len(form.Body)), nil, nil
	r.Form, r.PostForm, r.MultipartForm = nil, nil, nil
	r.RequestURI = target
	r.URL.RawQuery, _ = sitepath.CutParam(r.URL.RawQuery, keptParam)
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && orig.URL != nil && orig.URL != r.URL {
		orig.URL.RawQuery, _ = sitepath.CutParam(orig.URL.RawQuery, keptParam)
	}
	p.log.Info("kept form sent", zap.String("origin", g.site.origin), zap.String("person_id", g.who.Subject),
		zap.String("client_ip", p.origin(r).ClientIP))
	return nil
}
