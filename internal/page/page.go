// Package page writes the HTML that people see: templates, the stylesheet, messages, and what guards them (Content-Security-Policy,
// CSRF tokens). What a page says is the caller's; how it looks and what it forbids is this package's.
package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
)

// Brand is how the pages present whoever runs them.
type Brand struct {
	Name string // Default: Gatehouse
	// Logo is a PNG, JPEG or GIF image of at most 256 KiB. Empty: the name alone.
	Logo []byte
	// LogoType is its media type. Default: found out from the image.
	LogoType string
	// Color is #rgb or #rrggbb. It is darkened or lightened until text in it can be read. Default: #3b5bdb
	Color string
	// Help is where people find help: an http, https or mailto URL. Empty: none
	Help string
}

// Config is what the operator decided about the pages.
type Config struct {
	Brand   Brand
	Icons   map[string][]byte // of identity providers, by their ids: PNG, JPEG or GIF
	Logos   map[string][]byte // of clients, by their ids: PNG, JPEG or GIF
	Locales []string          // BCP 47, the first is the default. Default: en
	Issuer  string            // origin of the pages, no trailing slash
	Key     []byte            // HMAC key of CSRF tokens, at least 32 bytes
	// Extension is a directory of messages and files that are added. Default: none
	Extension string
	Random    io.Reader
	Log       *zap.Logger
}

// View is one page.
type View struct {
	// Template: sign_in, choose, connect, forward, trouble, consent, sign_out, signed_out, dashboard, security, step_up, authenticator, pin, recovery,
	// confirm, error, message, form_post.
	Template string
	Status   int // 0: 200
	// Locales in order of preference, before those of the request.
	Locales []string
	// Mobile leaves out what leads away from the page. (token server document, app_view)
	Mobile bool
	// Client is who asks. Its Targets go into form-action.
	Client login.Client
	// Nav is the navigation of the pages of an account. nil: the page stands alone.
	Nav *Nav
	// Data is the struct of the template.
	Data any
}

// FormPost is the data of form_post: the answer of an authorization request that the browser posts to the client. (OAuth 2.0 Form
// Post Response Mode 2) It goes by itself where scripts run, otherwise by a button.
type FormPost struct {
	Action string // the client's redirect URI, http or https: the only place that the form may go to
	Fields []Hidden
	// Away says that the form goes to an identity provider, which may send the browser on to places that nobody knows beforehand.
	Away bool
}

// Hidden is a hidden field of a form.
type Hidden struct{ Name, Value string }

// SignIn is the data of sign_in.
type SignIn struct {
	Action, CSRF string
	Username     string
	Remember     bool
	CanRemember  bool
	// Problem is the key of the message that says what to do next. Empty: none.
	Problem string
	// Wait is for how many seconds more no try is taken, for the message problem.wait.
	Wait   int
	Cancel string // same-origin link. Empty: none
	// Providers are where one can sign in instead.
	Providers []Provider
	// NoForm leaves the form away, NoPassword its password: then the username alone decides where to go on.
	NoForm, NoPassword bool
	// ForgotURL leads to who has no password, or not the right one; RemindURL to who has no username; SignUpURL to who has no account. Empty: not shown
	ForgotURL, RemindURL, SignUpURL string
	// Passkey is the form for who has one. nil: there is none
	Passkey *Passkey
}

// Provider is a link to an identity provider.
type Provider struct {
	Name, URL string
	Icon      string // what Icon returns. Empty: a drawing of ours
	Last      bool   // it was used in this browser the last time
}

// Choose is the data of choose: go on as the person who is signed in, or as another. Its form sends csrf and choice: continue or other.
type Choose struct {
	Action, CSRF, Account, Detail string
	Cancel                        string
}

// Token is the data of token: go on as a person whom an action token signs in. Its form sends csrf.
type Token struct {
	Action, CSRF, Account, Detail string
	// Made says that somebody who is signed in to the account has made the link on a page.
	Made bool
	// Other is who is signed in in this browser, and Cancel leads back to where they are. Empty: nobody else
	Other, Cancel string
}

// Consent is the data of consent. Its form sends csrf, request (the RequestID) and decision: allow or deny.
type Consent struct {
	Action, CSRF, RequestID string
	Account                 string // who is asked
	Owner                   string // host of the client's redirect URI
	Scopes                  []ScopeLine
}

// ScopeLine is one thing that is allowed. Description empty: the standard scopes have one of ours, others show their name.
type ScopeLine struct{ Name, Description string }

// Connect is the data of connect: somebody whom a provider has named shows by a password which account is theirs. Its form sends csrf,
// username and password.
type Connect struct {
	Action, CSRF, Provider string
	Username               string
	Problem                string // as in SignIn
	Wait                   int
	Cancel                 string
}

// Forward is the data of forward: the browser goes to To, a path of ours, by itself, or by a link.
type Forward struct{ Name, To string }

// Trouble is the data of trouble: something went wrong at a provider. Its messages are <Key>.title and <Key>.text. The links are paths of ours;
// the last two may be empty.
type Trouble struct{ Key, Name, Again, Other, Cancel string }

// SignOut is the data of sign_out.
type SignOut struct {
	Action, CSRF string
	Account      string
	Hidden       map[string]string // further fields of the form
	Cancel       string            // same-origin link. Empty: none
}

// SignedOut is the data of signed_out.
type SignedOut struct {
	Continue string // link. Empty: none
	// GoOn leads to Continue by itself, after the frames have had a few seconds.
	GoOn bool
	// Frames are pages of clients that are loaded unseen, so that they end their own sessions. (OpenID Connect Front-Channel Logout 2)
	Frames []string
}

// frameSeconds is how long the frames have before the page goes on.
const frameSeconds = "3"

// Message is the data of message: the messages <Key>.title and <Key>.text.
type Message struct {
	Key  string
	Next string // same-origin link to go on. Empty: none
}

// failure is the data of error.
type failure struct{ Title, Text, Again, Ref string }

// Renderer writes pages. It is safe for concurrent use.
type Renderer struct {
	cfg Config
	*live
	templates map[string]*template.Template
	assets    *assets
	origin    string // scheme and host of the issuer
	host      string
	jar       cookie.Jar
	referrer  string // Referrer-Policy
	elsewhere bool   // the pages are those of another origin than the issuer's
}

// New returns a renderer, or an error that says what is wrong with the brand, the locales or the key.
func New(cfg Config) (*Renderer, error) {
	if len(cfg.Key) < 32 {
		return nil, errors.New("page: the key of CSRF tokens needs at least 32 bytes")
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Brand.Name == "" {
		cfg.Brand.Name = "Gatehouse"
	}
	u, err := url.Parse(cfg.Issuer)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("page: the issuer must be an http or https URL")
	}
	p := &Renderer{cfg: cfg, live: &live{}, origin: strings.ToLower(u.Scheme + "://" + u.Host), host: u.Host, jar: cookie.For(cfg.Issuer), referrer: "same-origin"}
	if cfg.Brand.Help != "" && !IsLink(cfg.Brand.Help) {
		return nil, errors.New("page: the address of help must be an http, https or mailto URL")
	}
	c, err := newCatalogue(cfg.Locales, nil)
	if err != nil {
		return nil, err
	}
	p.catalogue.Store(&current{nil, c})
	if err := p.ReloadExtension(context.Background()); err != nil {
		return nil, err
	}
	if p.assets, err = newAssets(cfg.Brand); err != nil {
		return nil, err
	}
	if err := p.assets.addIcons(cfg.Icons); err != nil {
		return nil, err
	}
	if err := p.assets.addLogos(cfg.Logos); err != nil {
		return nil, err
	}
	if p.templates, err = parseTemplates(); err != nil {
		return nil, err
	}
	return p, nil
}

// Render writes a page with its status and headers. A page that cannot be made becomes the error page; it never breaks off half-way.
func (p *Renderer) Render(w http.ResponseWriter, r *http.Request, v View) {
	scripts := new(needed)
	body, lang, err := p.make(r, v, scripts)
	if err != nil {
		p.cfg.Log.Error("page not made", zap.String("template", v.Template), zap.Error(err))
		v = View{Template: "error", Status: http.StatusInternalServerError, Locales: v.Locales, Data: p.failure(lang, "error.internal", "", p.ref())}
		scripts = new(needed)
		if body, _, err = p.make(r, v, scripts); err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
	}
	p.headers(w.Header(), v, scripts)
	w.Header().Set("Content-Language", lang.tag)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(max(v.Status, http.StatusOK))
	if _, err := w.Write(body); err != nil {
		p.cfg.Log.Debug("page not sent", zap.Error(err))
	}
}

// Error writes an error page and returns the reference id that it shows, for the log line. key is the key of a message
// ("error.expired"), again a same-origin link that starts again, or "". Pages below 500 are expected: they have no reference and the
// same bytes each time, so the answer is "" there. 503 and 429 set Retry-After when it is not set yet.
func (p *Renderer) Error(w http.ResponseWriter, r *http.Request, status int, key, again string) (ref string) {
	if status >= http.StatusInternalServerError {
		ref = p.ref()
	}
	if (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "5")
	}
	lang := p.match(r, nil, "")
	p.Render(w, r, View{Template: "error", Status: status, Data: p.failure(lang, key, again, ref)})
	return ref
}

func (p *Renderer) failure(lang *language, key, again, ref string) failure {
	if _, ok := lang.find(key + ".title"); !ok {
		key = "error.internal"
	}
	return failure{Title: lang.T(key + ".title"), Text: lang.T(key + ".text"), Again: LocalPath(again), Ref: ref}
}

// ref returns a short id that a person can read out: 8 letters and digits.
func (p *Renderer) ref() string {
	var b [5]byte
	if _, err := io.ReadFull(p.cfg.Random, b[:]); err != nil {
		return ""
	}
	s := base32.StdEncoding.EncodeToString(b[:])
	return s[:4] + "-" + s[4:]
}

// frame is what every template sees.
type frame struct {
	*language
	Brand    Brand
	Host     string
	CSS      string
	Icon     string
	Logo     string
	LogoSize [2]int
	Secure   bool // the issuer has https: only then does the footer show a lock
	Mobile   bool
	Client   login.Client
	Nav      *Nav
	Data     any

	Languages []languageLink
	Help      string
	// Organisation is whom the client belongs to, ClientLogo the picture beside its name. nil: nobody knows, none
	Organisation *organisation
	ClientLogo   *shown

	needed  *needed
	scripts map[string]string
}

// match chooses the language of an answer. preferred is that of whom the application belongs to.
func (p *Renderer) match(r *http.Request, wanted []string, preferred string) *language {
	return p.messages(r.Context()).match(r, p.jar.Get(r, kindLanguage), wanted, preferred)
}

func (p *Renderer) make(r *http.Request, v View, scripts *needed) ([]byte, *language, error) {
	org := p.organisationOf(r, v.Client.ID)
	lang := p.match(r, v.Locales, org.language)
	t, ok := p.templates[v.Template]
	if !ok {
		return nil, lang, fmt.Errorf("page: unknown template %q", v.Template)
	}
	var b bytes.Buffer
	f := frame{
		language: lang, Brand: p.cfg.Brand, Host: p.host, CSS: p.assets.css, Icon: p.assets.icon, Logo: p.assets.logo, LogoSize: p.assets.logoSize,
		Secure: strings.HasPrefix(p.origin, "https:"), Mobile: v.Mobile, Client: v.Client, Nav: v.Nav, Data: v.Data,
		Languages: p.languageLinks(r, v, lang), Help: p.cfg.Brand.Help,
		needed: scripts, scripts: p.assets.scripts,
	}
	p.belong(&f, org, v)
	err := t.ExecuteTemplate(&b, "frame", f)
	return b.Bytes(), lang, err
}

// headers sets what every page carries.
func (p *Renderer) headers(h http.Header, v View, scripts *needed) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy(v, scripts))
	if d, ok := v.Data.(SignedOut); ok && d.GoOn && d.Continue != "" {
		h.Set("Refresh", frameSeconds+"; url="+d.Continue)
	}
	if d, ok := v.Data.(Push); ok && d.Refresh {
		h.Set("Refresh", pushSeconds)
	}
	if d, ok := v.Data.(Forward); ok {
		h.Set("Refresh", "0; url="+LocalPath(d.To))
	}
	h.Set("X-Frame-Options", "DENY") // RFC 7034, for browsers without frame-ancestors
	h.Set("Referrer-Policy", p.referrer)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Language, Cookie")
}

// policy is the Content-Security-Policy. Browsers apply form-action to the redirects that follow a POST, so the places where the
// flow ends must be named.
func policy(v View, scripts *needed) string {
	actions, more := []string{"'self'"}, ""
	if scripts.any() {
		more = " script-src 'self';"
	}
	for _, t := range v.Client.Targets {
		if isTarget(t) && !slices.Contains(actions, t) {
			actions = append(actions, t)
		}
	}
	switch d := v.Data.(type) {
	case FormPost:
		actions = []string{formTarget(d.Action)}
		if scheme, _, ok := strings.Cut(actions[0], "://"); ok && d.Away {
			actions = []string{scheme + ":"} // browsers apply form-action to what the provider redirects to
		}
		more = " script-src '" + submitHash + "';"
	case SignedOut:
		if hosts := frameHosts(d.Frames); len(hosts) > 0 {
			more = " frame-src " + strings.Join(hosts, " ") + ";"
		}
	}
	return "default-src 'none';" + more + " style-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action " +
		strings.Join(actions, " ")
}

// frameHosts are the origins of the frames, as a policy names them.
func frameHosts(frames []string) (hosts []string) {
	for _, f := range frames {
		u, err := url.Parse(f)
		if err != nil {
			continue
		}
		if host := u.Scheme + "://" + u.Host; isTarget(host) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// submitScript is the one script there is. It stands on the page of FormPost alone and is allowed by its hash.
const submitScript = "document.forms[0].submit()"

var submitHash = func() string {
	sum := sha256.Sum256([]byte(submitScript))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

// IsFormTarget tells whether a policy can name the URI as the one place that a form may go to: http or https, and a host that is a name
// or an IPv4 address, since source expressions know no other. (Content Security Policy Level 3 2.3.1)
func IsFormTarget(uri string) bool { return formTarget(uri) != "'none'" }

// formTarget is the source expression of exactly this URI, whose query does not count, or 'none'.
func formTarget(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.User != nil || !isTarget(u.Scheme+"://"+u.Host) || strings.ContainsAny(u.Host, "[]") {
		return "'none'"
	}
	path := strings.ReplaceAll(u.EscapedPath(), ",", "%2C") // a comma would end the policy
	if path == "" {
		path = "/"
	}
	if strings.ContainsAny(path, " ;'\"\t\r\n") {
		return "'none'"
	}
	return u.Scheme + "://" + u.Host + path
}

// isTarget accepts an origin (https://app.example.com:8443) or a scheme (com.example.app:) and nothing that could end or widen the directive.
func isTarget(t string) bool {
	if t == "" || len(t) > 300 || strings.ContainsAny(t, " ;,'\"*\\\t\r\n") {
		return false
	}
	for _, c := range t {
		if c <= 0x20 || c >= 0x7f {
			return false
		}
	}
	u, err := url.Parse(t)
	if err != nil || u.Scheme == "" {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "javascript", "data", "blob", "vbscript", "about", "filesystem":
		return false
	case "http", "https":
		return u.Host != "" && u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
	}
	return t == u.Scheme+":"
}

// LocalPath returns ref when it is a path (and query) on our own origin, and "" otherwise: nothing that a browser could read as
// another host, scheme or directory.
func LocalPath(ref string) string {
	if ref == "" || ref[0] != '/' || strings.HasPrefix(ref, "//") || strings.ContainsAny(ref, "\\#") || len(ref) > 4096 {
		return ""
	}
	for i := range len(ref) {
		if ref[i] <= 0x20 || ref[i] >= 0x7f {
			return ""
		}
	}
	u, err := url.Parse(ref)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" {
		return ""
	}
	// Judged after decoding too: /%2f/evil or /%5cevil may be read as another host further on, and dots lead elsewhere.
	for seg := range strings.SplitSeq(strings.TrimPrefix(u.Path, "/"), "/") {
		if seg == "." || seg == ".." {
			return ""
		}
	}
	if strings.Contains(u.Path, "//") || strings.ContainsAny(u.Path, "\\\x00\t\r\n") {
		return ""
	}
	return ref
}

// IsLink accepts what a link may lead to that is not ours: an http or https URL without a user, or the mailto URL of an address.
func IsLink(s string) bool {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2048 || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != "" && u.User == nil
	case "mailto":
		return strings.Contains(u.Opaque, "@")
	}
	return false
}

// isWeb accepts the address of a page that is not ours: an http or https URL without a user.
func isWeb(s string) bool { return IsLink(s) && strings.HasPrefix(s, "http") }
