package identity_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// patterns is a router that only records patterns.
type patterns []string

func (p *patterns) Handle(pattern string, _ http.Handler) { *p = append(*p, pattern) }

func (p *patterns) HandleFunc(pattern string, _ func(http.ResponseWriter, *http.Request)) {
	*p = append(*p, pattern)
}

// everyPage requests every path of the service, as a signed-in person and as a stranger, with every method and with
// hostile values in every parameter, and passes each answer to look. It reads the paths from the routes, so it covers
// new pages too.
func everyPage(t *testing.T, look func(t *testing.T, b *identitytest.Browser, method string, a *identitytest.Answer)) {
	t.Helper()
	h := identitytest.New(t, func(c *identity.Config) { c.Locales = []string{"en", "nl", "de", "fr"} })
	u := settings.Defaults()
	f := &u.Features
	f.SignUpEnabled, f.PasswordResetEnabled, f.AcceptingInvitationEnabled, f.PINEnabled, f.SMSEnabled = true, true, true, true, true
	f.GoogleAuthenticatorStepUpAuthenticationEnabled, f.ExternallyDeliveredCodeStepUp.Enabled = true, true
	u.EmailNotifications.StepUpAuthentication, u.EmailNotifications.PasswordReset, u.Attributes.Verification.EmailEnabled = true, true, true
	h.Units, h.Notices = func(storage.Tx) (*settings.Units, error) { return &u, nil }, &notifytest.Notices{}
	h.Start()
	person, stranger := h.Browser(), h.Browser()
	person.SignIn(identitytest.Demo, identitytest.DemoPassword)
	form := stranger.Get("/next")
	flow, err := url.Parse(form.URL)
	if err != nil {
		t.Fatal(err)
	}
	n, before := 0, h.Events()
	var all patterns
	h.Routes(&all)
	for _, pattern := range all {
		path := strings.NewReplacer("{id}", "corp", "{op}", "callback").Replace(pattern)
		if strings.HasSuffix(path, "/") {
			path += "x"
		}
		for _, b := range []*identitytest.Browser{person, stranger} {
			for _, query := range []string{"", "flow=" + flow.Query().Get("flow"), evilQuery()} {
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
					b.Header = http.Header{"Accept-Language": {evilText}, "Accept": {"text/html"}}
					n++
					look(t, b, method, b.Do(method, path+"?"+query, ""))
				}
			}
			b.Header = nil
		}
	}
	if n < 300 {
		t.Errorf("%d answers were looked at, want those of every path", n)
	}
	after := h.Events()
	delete(after, "person.DataDownloadedEvent") // caused by the download link, which changes nothing
	if !maps.Equal(after, before) {
		t.Errorf("something happened to somebody: the events were %v and are %v", before, after)
	}
	h.CheckInvariants()
}

const evilText = `"><script>alert(1)</script>{{.}}${7*7}`

// evilQuery returns every parameter that a page might read, each with a value that no page may follow or repeat.
func evilQuery() string {
	q := url.Values{}
	for _, name := range []string{
		"next", "redirect", "redirect_uri", "return", "return_to", "back", "to", "url", "target", "continue", "cancel", "again", "link", "id",
		"item", "method", "name", "email", "username",
		"hint", "login_hint", "locale", "language", "ui_locales", "error", "message", "problem", "key", "page", "choose", "other", "hop", "idp",
		"state", "code", "type", "kind", "from", "client", "done", "sent",
	} {
		q.Set(name, "//evil.example/"+evilText)
	}
	return q.Encode()
}

func isPage(a *identitytest.Answer) bool {
	return a.Header().Get("Location") == "" && strings.HasPrefix(a.Header().Get("Content-Type"), "text/html")
}

func TestEveryPage(t *testing.T) {
	t.Parallel()
	t.Run("attack 272, 273: what every page forbids", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			h := a.Header()
			if !isPage(a) {
				if a.Header().Get("Location") == "" && a.Body.Len() > 0 && !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") &&
					a.Code == http.StatusOK && !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
					t.Errorf("%s %.60s = %d %s without a policy", method, a.URL, a.Code, h.Get("Content-Type"))
				}
				return
			}
			directives := strings.Split(h.Get("Content-Security-Policy"), "; ")
			for _, want := range []string{
				"default-src 'none'", "style-src 'self'", "img-src 'self'", "object-src 'none'",
				"base-uri 'none'", "frame-ancestors 'none'",
			} {
				if !slices.Contains(directives, want) {
					t.Errorf("%s %.60s: policy %q without %s", method, a.URL, directives, want)
				}
			}
			if policy := h.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") ||
				!strings.Contains(policy, "form-action 'self'") {
				t.Errorf("%s %.60s: policy %q", method, a.URL, policy)
			}
			if h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" ||
				len(h.Values("Content-Security-Policy")) != 1 {
				t.Errorf("%s %.60s: headers %v", method, a.URL, h)
			}
		})
	})
	t.Run("attack 274: every cookie is ours alone", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			for _, c := range a.Result().Cookies() {
				lax := c.SameSite == http.SameSiteLaxMode || (c.SameSite == http.SameSiteNoneMode && strings.HasSuffix(c.Name, "-track"))
				if !strings.HasPrefix(c.Name, "__Host-gh-") || !c.Secure || !c.HttpOnly || c.Domain != "" || c.Path != "/" ||
					!lax || len(c.Raw) > 4096 {
					t.Errorf("%s %.60s sets %s, want __Host-, Secure, HttpOnly, Lax and no Domain", method, a.URL, c.Raw)
				}
			}
		})
	})
	t.Run("attack 276, 278, 283: what is asked for is not repeated as it is", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			if body := a.Body.String(); strings.Contains(body, "<script>alert") || strings.Contains(body, "49}") ||
				strings.Contains(body, `href="//evil`) || strings.Contains(body, `action="//evil`) {
				t.Errorf("%s %.60s repeats what was asked for:\n%.2000s", method, a.URL, body)
			}
			if l := a.Header().Get("Content-Language"); isPage(a) && !slices.Contains([]string{"en", "nl", "de", "fr"}, l) {
				t.Errorf("%s %.60s is in %q", method, a.URL, l)
			}
		})
	})
	t.Run("attack 279: no page is kept", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			vary := a.Header().Get("Vary")
			if strings.HasPrefix(a.URL, "/favicon.ico") && a.Header().Get("Content-Type") == "image/x-icon" {
				return // the same for everybody
			}
			if a.Code != http.StatusMethodNotAllowed && a.Header().Get("Cache-Control") != "no-store" || isPage(a) &&
				(!strings.Contains(vary, "Cookie") || !strings.Contains(vary, "Accept-Language")) {
				t.Errorf("%s %.60s = %d: Cache-Control %q, Vary %q, want no-store, Cookie and Accept-Language", method, a.URL, a.Code,
					a.Header().Get("Cache-Control"), vary)
			}
		})
	})
	t.Run("attack 281: nothing leads to where a request says", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			for _, header := range []string{"Location", "Refresh", "Link"} {
				to := a.Header().Get(header)
				if u, err := url.Parse(to); err != nil || u.Host != "" || strings.HasPrefix(to, "//") || strings.Contains(u.Path, "evil") {
					t.Errorf("%s %.60s: %s %q", method, a.URL, header, to)
				}
			}
		})
	})
	t.Run("attack 282: no path takes a form that is none", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			// A redirect within the service means that there was nothing to do.
			leads := a.Code == http.StatusSeeOther && strings.HasPrefix(a.Header().Get("Location"), "/")
			if method != http.MethodGet && method != http.MethodHead && a.Code < http.StatusBadRequest && !leads {
				t.Errorf("%s %.60s = %d %s, want it refused", method, a.URL, a.Code, a.Header().Get("Location"))
			}
			if a.Code == http.StatusMethodNotAllowed && a.Header().Get("Allow") == "" {
				t.Errorf("%s %.60s = 405 without Allow", method, a.URL)
			}
		})
	})
	t.Run("attack 284: no page and no address holds a secret", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, b *identitytest.Browser, method string, a *identitytest.Answer) {
			text := a.Header().Get("Location") + a.Header().Get("Refresh") + a.Body.String()
			for _, secret := range []string{identitytest.DemoPassword, b.Session(), b.Cookie("browser"), b.Cookie("device")} {
				if secret != "" && strings.Contains(text, secret) {
					t.Errorf("%s %.60s repeats a secret", method, a.URL)
				}
			}
		})
	})
	t.Run("attack 284: what a browser fills in by itself can be seen, and is sent to us alone", func(t *testing.T) {
		t.Parallel()
		var filled atomic.Int64
		form, input, attribute := regexp.MustCompile(`<form[^>]*>`), regexp.MustCompile(`<(?:input|select|textarea)[^>]*>`),
			regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)
		attributes := func(tag string) map[string]string {
			out := map[string]string{}
			for _, m := range attribute.FindAllStringSubmatch(tag, -1)[1:] {
				out[m[1]] = m[2]
			}
			return out
		}
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			for _, tag := range form.FindAllString(a.Body.String(), -1) {
				if at := attributes(tag); at["method"] != "post" || !strings.HasPrefix(at["action"], "/") || strings.HasPrefix(at["action"], "//") {
					t.Errorf("%s %.60s: %s, want a POST to a path of ours", method, a.URL, tag)
				}
			}
			for _, tag := range input.FindAllString(a.Body.String(), -1) {
				at := attributes(tag)
				_, hidden := at["hidden"]
				switch fills := at["autocomplete"]; {
				case at["type"] == "password" && fills == "":
					t.Errorf("%s %.60s: %s does not say which password it is", method, a.URL, tag)
				case fills == "" || fills == "off":
				case at["type"] == "hidden" || hidden || at["style"] != "" || at["tabindex"] != "":
					t.Errorf("%s %.60s: %s is filled in where nobody sees it", method, a.URL, tag)
				default:
					filled.Add(1)
				}
			}
		})
		if filled.Load() == 0 {
			t.Error("no page has a field that a browser fills in")
		}
	})
	t.Run("attack 288: nothing that is asked for is a failure of ours", func(t *testing.T) {
		t.Parallel()
		everyPage(t, func(t *testing.T, _ *identitytest.Browser, method string, a *identitytest.Answer) {
			if a.Code >= http.StatusInternalServerError || a.Code == 0 {
				t.Errorf("%s %.60s = %d:\n%.500s", method, a.URL, a.Code, a.Body)
			}
		})
	})
}
