package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// LanguagePath is the target of the language switch. (identity/routes.go)
const LanguagePath = "/language"

const (
	kindLanguage = "language" // cookie
	languageLife = 365 * 24 * time.Hour
	// A query value of this length can be a secret, such as an ID token in a hint. It is not copied into another
	// address, except for the id of the current flow, which is useless in another browser.
	secretLength = 40
)

// secretParams are query parameters that are never copied, however short.
var secretParams = []string{"code", "token"}

// Choose stores the language of the pages in the browser. It takes precedence over the wishes of the application and
// the browser. locale is matched to the nearest available language, such as nl for nl_BE. An unavailable language
// changes nothing, and neither does a choice when there is one language only.
func (p *Renderer) Choose(w http.ResponseWriter, r *http.Request, locale string) {
	c := p.messages(r.Context())
	if CheckLocale(locale) != nil || len(c.languages) < 2 {
		return
	}
	for _, key := range fallbacks(locale) {
		if lang := c.byName[key]; lang != nil {
			p.jar.Set(w, kindLanguage, lang.name, languageLife)
			return
		}
	}
}

// Forget removes what Choose has stored.
func (p *Renderer) Forget(w http.ResponseWriter, r *http.Request) {
	if p.jar.Get(r, kindLanguage) != "" {
		p.jar.Clear(w, kindLanguage)
	}
}

// ShowLanguage serves GET /language?to=…&back=…: it stores the language and redirects to the page that the person came
// from. Links on other sites redirect too, but change nothing.
func (p *Renderer) ShowLanguage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if site := r.Header.Get("Sec-Fetch-Site"); site == "" || site == "same-origin" || site == "none" {
		p.Choose(w, r, q.Get("to"))
	}
	to := LocalPath(q.Get("back"))
	if to == "" || strings.HasPrefix(to, p.prefix+LanguagePath) {
		to = accountPath
		if p.elsewhere {
			to = "/"
		}
	}
	Redirect(w, to)
}

// languageLink is one language of the switch.
type languageLink struct {
	Name, Tag, URL string
	Current        bool
}

// languageLinks are the languages to choose from on this page. It is empty when there is one language only, when the
// page is the answer to a form and has no GET, and when its address may hold a secret.
func (p *Renderer) languageLinks(r *http.Request, v View, now *language) []languageLink {
	c := p.messages(r.Context())
	again := r.Method == http.MethodGet || r.Method == http.MethodHead || v.Status == http.StatusUnprocessableEntity ||
		v.Status == http.StatusTooManyRequests
	if len(c.offered) < 2 || !again || v.passing() {
		return nil
	}
	back := LocalPath(r.URL.RequestURI())
	if back == "" || holdsSecret(r.URL.Query()) {
		return nil
	}
	var links []languageLink
	for _, l := range c.offered {
		links = append(links, languageLink{
			Name: l.ownName(), Tag: l.tag, Current: l.tag == now.tag,
			URL: p.prefix + LanguagePath + "?" + url.Values{"to": {l.name}, "back": {back}}.Encode(),
		})
	}
	return links
}

// passing reports whether the browser leaves the page by itself.
func (v View) passing() bool {
	switch d := v.Data.(type) {
	case FormPost, Forward, SigningOut:
		return true
	case SignedOut:
		return d.GoOn || len(d.Frames) > 0
	}
	return false
}

func holdsSecret(q url.Values) bool {
	for _, name := range secretParams {
		if q.Has(name) {
			return true
		}
	}
	for name, values := range q {
		if name != "flow" && name != "request" && slices.ContainsFunc(values, func(v string) bool { return len(v) >= secretLength }) {
			return true
		}
	}
	return false
}

// named returns the language of this name, or nil.
func (c *catalogue) named(locale string) *language {
	if CheckLocale(locale) != nil {
		return nil
	}
	return c.byName[localeKey(locale)]
}

// ownNames are the names of our languages, each in the language itself.
var ownNames = map[string]string{"de": "Deutsch", "en": "English", "fr": "Français", "nl": "Nederlands"}

// ownName is the name of the language in the switch: its message language.name if there is one, else its own name, else
// its tag.
func (l *language) ownName() string {
	for _, texts := range l.texts[:l.near] {
		if name := texts["language.name"]; name != "" {
			return name
		}
	}
	base, region, _ := strings.Cut(l.tag, "-")
	switch name := ownNames[base]; {
	case name == "":
		return l.tag
	case region != "":
		return name + " (" + region + ")"
	default:
		return name
	}
}
