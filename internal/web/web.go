// Package web renders the HTML that people see: templates, the stylesheet, messages, and their protection
// (Content-Security-Policy, CSRF tokens). The caller decides what a page says; this package decides how it looks and
// what it forbids.
package web

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
)

// Brand is the presentation of the operator on pages.
type Brand struct {
	Name string // Default: Gatehouse
	// Logo is a PNG, JPEG or GIF image of at most 64 KiB. Empty: the name alone.
	Logo []byte
	// LogoType is its media type. Default: detected from the image
	LogoType string
	// Color is #rgb or #rrggbb. It is darkened or lightened until text in it is readable. Default: #3b5bdb
	Color string
	// Help is the address of help: an http, https or mailto URL. Empty: none
	Help string
}

// Config is the operator's configuration of the pages.
type Config struct {
	Brand   Brand
	Icons   map[string][]byte // of identity providers, by their ids: PNG, JPEG or GIF
	Logos   map[string][]byte // of clients, by their ids: PNG, JPEG or GIF
	Locales []string          // BCP 47, the first is the default. Default: en
	Issuer  string            // origin of the pages, no trailing slash
	Key     []byte            // HMAC key of CSRF tokens, at least 32 bytes
	// EmailUsernames says that usernames are e-mail addresses.
	EmailUsernames bool
	// Extension is a directory with additional messages and files. Default: none
	Extension string
	Random    io.Reader
	Log       *zap.Logger
}

// failure is the data of error.
type failure struct {
	Title, Text, Ref  string
	Again, AgainLabel string
	Account, Another  string
	Back              string
	Ask, State, Note  string
	Details           []FailureDetail
	Onward            Onward
}

// Failure are the texts and offers of an error page.
type Failure struct {
	// Key is the stem of two messages: Key.title and Key.text.
	Key string
	// Text replaces the second one. Empty: it does not.
	Text string
	// Again is a same-origin link to start again, AgainLabel the message on it. Empty: none, and "error.again".
	Again, AgainLabel string
	// Ref is the reference of the refusal. Empty: none.
	Ref string
	// Account is the name of the person who is signed in, Another a same-origin link to sign in as another one, and Back
	// the address of a page that they can open. Each can be empty.
	Account, Another, Back string
	// Ask is a same-origin link to ask for access. State is the key of a message about the state of an earlier request,
	// and Note the remark of an administrator on it. Empty: none.
	Ask, State, Note string
	// Details are for developers.
	Details []FailureDetail
	// Onward is a way to another site, which the person takes or not. Zero: none.
	Onward Onward
}

// Onward is a link to another site or, with fields, a form that goes there.
type Onward struct {
	Host    string // named on the link
	Address string
	Fields  []Hidden
}

// FailureDetail is a value that was sent or expected. Label is a message.
type FailureDetail struct {
	Label  string
	Values []string
}

// Renderer writes pages. It is safe for concurrent use.
type Renderer struct {
	cfg    Config
	person func(*http.Request) string // nil: pages of errors do not say who is signed in
	*liveState
	templates templateSet
	assets    *assets
	origin    string // scheme and host of the issuer
	host      string
	jar       cookie.Jar
	referrer  string // Referrer-Policy
	elsewhere bool   // the pages belong to another origin than the issuer's
	prefix    string // of our own paths there
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
	p := &Renderer{
		cfg: cfg, liveState: &liveState{}, origin: strings.ToLower(u.Scheme + "://" + u.Host), host: u.Host,
		jar: cookie.For(cfg.Issuer), referrer: "same-origin",
	}
	if cfg.Brand.Help != "" && !IsLink(cfg.Brand.Help) {
		return nil, errors.New("page: the address of help must be an http, https or mailto URL")
	}
	c, err := newCatalogue(cfg.Locales, nil, cfg.EmailUsernames)
	if err != nil {
		return nil, err
	}
	p.catalogue.Store(&catalogueState{nil, c})
	p.openExtension()
	if p.assets, err = newAssets(cfg.Brand); err != nil {
		return nil, err
	}
	if err := p.assets.addLogos(ProviderLogo, "provider", cfg.Icons); err != nil {
		return nil, err
	}
	if err := p.assets.addLogos(ClientLogo, "client", cfg.Logos); err != nil {
		return nil, err
	}
	if p.templates, err = templates(); err != nil {
		return nil, err
	}
	return p, nil
}

// Render writes a page with its status and headers. If the page cannot be made, it writes the error page instead, never
// a part of a page.
func (p *Renderer) Render(w http.ResponseWriter, r *http.Request, v View) {
	scripts := new(scriptSet)
	body, lang, err := p.make(r, v, scripts)
	if err != nil {
		p.cfg.Log.Error("page not made", zap.String("template", v.Template), zap.Error(err))
		ref := p.ref()
		denial.Tell(w.Header(), ref)
		v = View{
			Template: "error", Status: http.StatusInternalServerError, Locales: v.Locales,
			Data: p.failureFor(lang, Failure{Key: "error.internal", Ref: ref}),
		}
		scripts = new(scriptSet)
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

// Error writes an error page and returns the reference id on it, for the log line. key is the key of a message
// ("error.expired"); again is a same-origin link to start again, or "". The reference is that of the request's refusal.
// Without a refusal there is one from 500 on, otherwise the result is "". 503 and 429 set Retry-After if it is not set
// yet.
func (p *Renderer) Error(w http.ResponseWriter, r *http.Request, status int, key, again string) (ref string) {
	return p.ErrorTo(w, r, status, key, again, "")
}

// ErrorTo is Error with the message on the link. Empty: "error.again".
func (p *Renderer) ErrorTo(w http.ResponseWriter, r *http.Request, status int, key, again, label string) (ref string) {
	if ref = denial.Told(r.Context()); ref == "" && status >= http.StatusInternalServerError {
		ref = p.ref()
	}
	p.Fail(w, r, status, Failure{Key: key, Again: again, AgainLabel: label, Ref: ref})
	return ref
}

// Fail writes an error page that says who is signed in and where to go.
func (p *Renderer) Fail(w http.ResponseWriter, r *http.Request, status int, f Failure) {
	if (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) && w.Header().Get("Retry-After") == "" {
		ratelimit.RetryAfter(w, ratelimit.Soon)
	}
	denial.Tell(w.Header(), f.Ref)
	if p.person != nil && status < http.StatusInternalServerError {
		p.leadOn(r, status, &f)
	}
	lang := p.match(r, nil, "")
	p.Render(w, r, View{Template: "error", Status: status, Data: p.failureFor(lang, f)})
}

// SetPerson sets the function that returns the name of the person who is signed in, or "". Pages of errors then say who
// that is and lead on. Call SetPerson before the renderer is used, if at all.
func (p *Renderer) SetPerson(of func(*http.Request) string) { p.person = of }

const accountPath = "/account"

// leadOn adds to an error page who is signed in, and links to go on.
func (p *Renderer) leadOn(r *http.Request, status int, f *Failure) {
	if f.Account = cmp.Or(f.Account, p.person(r)); f.Account == "" && f.Again != "" {
		return // a stranger can only start again
	}
	if f.Again != accountPath {
		f.Back = cmp.Or(f.Back, accountPath)
	}
	if f.Account == "" || f.Another != "" || status != http.StatusForbidden || f.Key == "error.closed" {
		return
	}
	to := f.Again
	if to == "" && r.Method == http.MethodGet && (f.Key == "error.denied" || f.Key == "error.level" || f.Key == "error.assurance") {
		to = r.URL.RequestURI() // it can open for another person
	}
	f.Another = AnotherAccount(to)
}

// AnotherAccount returns the address of the sign-in page for another account, which leads on to one of our paths. "":
// to the account page.
func AnotherAccount(to string) string {
	return "/sign-in?" + url.Values{"other": {"1"}, "redirect": {cmp.Or(LocalPath(to), accountPath)}}.Encode()
}

func (p *Renderer) failureFor(lang *language, f Failure) failure {
	if _, ok := lang.find(f.Key + ".title"); !ok {
		f.Key = "error.internal"
	}
	return failure{
		Title: lang.T(f.Key + ".title"), Text: cmp.Or(f.Text, lang.T(f.Key+".text")), Ref: f.Ref, Again: LocalPath(f.Again),
		AgainLabel: lang.T(cmp.Or(f.AgainLabel, "error.again")),
		Account:    f.Account, Another: LocalPath(f.Another), Back: f.Back, Ask: LocalPath(f.Ask), State: f.State,
		Note: f.Note, Details: f.Details, Onward: f.Onward,
	}
}

// ref returns the reference of a failure.
func (p *Renderer) ref() string { return denial.NewRef(p.cfg.Random) }

// frame is the data of every template.
type frame struct {
	*language
	Brand    Brand
	Host     string
	CSS      string
	Font     string
	More     string // a second stylesheet. Empty: none
	Icon     string
	Touch    string
	Logo     string
	LogoSize [2]int
	Secure   bool // the issuer has https: the footer shows a lock only then
	Mobile   bool
	Client   authn.Client
	Nav      *Nav
	Data     any

	Languages []languageLink
	Help      string
	// Ref is the reference of the refusal that the page reports. Empty: it reports none
	Ref string
	// Organisation is the owner of the client, ClientLogo the picture next to its name. nil: unknown, none
	Organisation *organisation
	ClientLogo   *Image

	// Signals is that of the View
	Signals string
	// Fragment is that of the View, and FragmentCookie the name of the cookie that tells the server about it
	Fragment, FragmentCookie string
	// Elsewhere says that the page belongs to a site
	Elsewhere bool

	needed  *scriptSet
	scripts map[string]string
	files   func() []string // of the configuration. nil: unknown
}

// match chooses the language of an answer. preferred is that of the application's organisation.
func (p *Renderer) match(r *http.Request, wanted []string, preferred string) *language {
	return p.messages(r.Context()).match(r, p.jar.Get(r, kindLanguage), wanted, preferred)
}

func (p *Renderer) make(r *http.Request, v View, scripts *scriptSet) ([]byte, *language, error) {
	org := p.organisationOf(r, v.Client.ID)
	lang := p.match(r, v.Locales, org.language)
	f := p.frame(v, lang, scripts)
	f.Languages, f.Ref = p.languageLinks(r, v, lang), denial.Told(r.Context())
	p.setOrganisation(r.Context(), f, org, v)
	if _, ok := v.Data.(Console); ok {
		f.More = p.assets.console
	}
	body, err := p.execute(v, "frame", f)
	return body, lang, err
}

// frame returns the data of a page in a language for the templates.
func (p *Renderer) frame(v View, lang *language, scripts *scriptSet) *frame {
	return &frame{
		files:    p.files,
		language: lang, Brand: p.cfg.Brand, Host: p.host, CSS: p.assets.css, Font: p.assets.font, Icon: p.assets.icon, Touch: p.assets.touch,
		Logo: p.assets.logo, LogoSize: p.assets.logoSize,
		Secure: strings.HasPrefix(p.origin, "https:"), Mobile: v.Mobile, Client: v.Client, Nav: v.Nav, Data: v.Data, Help: p.cfg.Brand.Help,
		Signals: v.Signals, Fragment: v.Fragment, FragmentCookie: p.jar.Name(kindFragment), Elsewhere: p.elsewhere,
		needed: scripts, scripts: p.assets.scripts,
	}
}

// execute writes a part of a page, or with "frame" all of it.
func (p *Renderer) execute(v View, part string, f *frame) ([]byte, error) {
	t, err := p.templates.page(v.Template)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.ExecuteTemplate(&b, part, f)
	return b.Bytes(), err
}
