package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

var switchLink = regexp.MustCompile(`<a href="((?:/\.gatehouse)?/language\?[^"]*)" hreflang="([^"]*)"[^>]*>([^<]*)</a>`)

// languages returns the languages that the page at an address offers, and where each leads.
func languages(t *testing.T, p *web.Renderer, method, address string, v web.View) (names []string, links map[string]string) {
	t.Helper()
	w := httptest.NewRecorder()
	p.Render(w, httptest.NewRequest(method, "https://auth.example.com"+address, nil), v)
	links = map[string]string{}
	for _, m := range switchLink.FindAllStringSubmatch(w.Body.String(), -1) {
		names, links[m[2]] = append(names, m[3]), strings.ReplaceAll(m[1], "&amp;", "&")
	}
	return names, links
}

var all = []string{"en", "nl", "de", "fr"}

func TestLanguageSwitch(t *testing.T) {
	t.Parallel()
	brought := &web.Overrides{Locales: map[string]map[string]string{
		"es": {"language.name": "Español", "sign_in.title": "Entrar"}, "pt_BR": {"sign_in.title": "Entrar"},
		"nl_NL_informal": {"sign_in.title": "Hoi"},
	}}
	v := views()["sign_in"]
	for name, tt := range map[string]struct {
		p    *web.Renderer
		want string
	}{
		"one language alone":        {withMessages(t, nil), ""},
		"all of ours but this one":  {withMessages(t, all), "Nederlands Deutsch Français"},
		"a country of ours":         {withMessages(t, []string{"en", "de-AT"}), "Deutsch (AT)"},
		"those that messages bring": {withMessages(t, []string{"en", "nl"}, brought), "Nederlands Español pt-BR"},
		"on another origin":         {withMessages(t, all).On("https://wiki.example.com", "/.gatehouse"), "Nederlands Deutsch Français"},
	} {
		if names, _ := languages(t, tt.p, http.MethodGet, "/sign-in?flow=f", v); strings.Join(names, " ") != tt.want {
			t.Errorf("%s: the page offers %q, want %q", name, names, tt.want)
		}
	}
	site := withMessages(t, all).On("https://wiki.example.com", "/.gatehouse")
	if _, links := languages(t, site, http.MethodGet, "/plans?a=1", v); links["nl"] != "/.gatehouse/language?back=%2Fplans%3Fa%3D1&to=nl" {
		t.Errorf("on another origin: nl is at %q, want it below the prefix", links["nl"])
	}
	p := withMessages(t, all)
	for name, tt := range map[string]struct {
		method, address string
		v               web.View
		want            string // where the link leads back. Empty: no link
	}{
		"the flow is kept":           {"GET", "/sign-in?flow=f&choose=1", v, "/sign-in?flow=f&choose=1"},
		"a form shown again":         {"POST", "/sign-in?flow=f", views()["sign_in_wrong"], "/sign-in?flow=f"},
		"a throttled form":           {"POST", "/sign-in?flow=f", views()["sign_in_wait"], "/sign-in?flow=f"},
		"what a form has shown":      {"POST", "/account/security/recovery", views()["recovery"], ""},
		"a page that continues":      {"GET", "/x", views()["form_post"], ""},
		"a forwarding page":          {"GET", "/x", views()["forward"], ""},
		"frames":                     {"GET", "/x", views()["signed_out_on"], ""},
		"an ID token in the address": {"GET", "/oauth/logout?id_token_hint=" + strings.Repeat("a", 40), views()["sign_out"], ""},
		"a consent page": {
			"GET", "/oauth/authorize?request=" + strings.Repeat("a", 43), views()["consent"],
			"/oauth/authorize?request=" + strings.Repeat("a", 43),
		},
		"a code in the address":       {"GET", "/x?code=1", v, ""},
		"a token in the address":      {"GET", "/x?token=1", v, ""},
		"an address, not a path":      {"GET", "//evil.example/x", v, ""},
		"app_view mobile":             {"GET", "/x", views()["sign_in_alone"], ""},
		"an address without a secret": {"GET", "/oauth/logout?client_id=shop", views()["sign_out"], "/oauth/logout?client_id=shop"},
	} {
		_, links := languages(t, p, tt.method, tt.address, tt.v)
		got := ""
		if u, err := url.Parse(links["nl"]); err == nil {
			got = u.Query().Get("back")
		}
		if got != tt.want {
			t.Errorf("%s: %s %s leads back to %q, want %q", name, tt.method, tt.address, got, tt.want)
		}
	}
}

// choose follows a link to a language and returns the answer.
func choose(p *web.Renderer, address string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "https://auth.example.com"+address, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.ShowLanguage(w, r)
	return w.Result()
}

func TestChosenLanguage(t *testing.T) {
	t.Parallel()
	p := withMessages(t, all, &web.Overrides{Locales: map[string]map[string]string{"nl_NL_informal": {"sign_in.title": "Hoi"}}})
	resp := choose(p, "/language?to=de&back="+url.QueryEscape("/sign-in?flow=f"))
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/sign-in?flow=f" || len(resp.Cookies()) != 1 {
		t.Fatalf("GET /language = %d %v", resp.StatusCode, resp.Header)
	}
	c := resp.Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || !strings.HasPrefix(c.Name, "__Host-") ||
		c.Domain != "" || c.MaxAge > 366*24*3600 {
		t.Errorf("cookie %v, want __Host-, HttpOnly, Secure, Lax and a year", c)
	}
	lang := func(value string, locales ...string) string {
		r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/sign-in", nil)
		r.Header.Set("Accept-Language", "nl")
		r.AddCookie(&http.Cookie{Name: c.Name, Value: value})
		w := httptest.NewRecorder()
		p.Render(w, r, web.View{Template: "signed_out", Locales: locales, Data: web.SignedOut{}})
		return w.Header().Get("Content-Language")
	}
	if got := lang(c.Value, "fr"); got != "de" {
		t.Errorf("the page of a browser that chose de is in %q, want de before what the application and the browser ask for", got)
	}
	t.Run("attack 283: a language cookie that is no language", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{"xx", "<script>", "../../etc/passwd", "{env.HOME}", strings.Repeat("d", 300), "xx_DE", "de_DE_x_y", ""} {
			if got := lang(bad); got != "nl" {
				t.Errorf("cookie %.20q: the page is in %q, want what the browser asks for", bad, got)
			}
			if cookies := choose(p, "/language?to="+url.QueryEscape(bad)).Cookies(); len(cookies) != 0 {
				t.Errorf("GET /language?to=%.20q sets %v, want nothing", bad, cookies)
			}
		}
	})
	t.Run("attack 281: a language link leads nowhere but here", func(t *testing.T) {
		t.Parallel()
		for _, evil := range []string{
			"//evil.example", "https://evil.example", `/\evil.example`, "/%09/evil.example", "javascript:alert(1)",
			"/..//evil.example", "", "/language?to=de",
		} {
			if got := choose(p, "/language?to=de&back="+url.QueryEscape(evil)).Header.Get("Location"); got != "/account" {
				t.Errorf("back=%q leads to %q, want /account", evil, got)
			}
		}
	})
	site := p.On("https://wiki.example.com", "/.gatehouse")
	for back, want := range map[string]string{
		"/plans": "/plans", "//evil.example": "/", "https://evil.example": "/",
		"/.gatehouse/language?to=de": "/", "": "/",
	} {
		if got := choose(site, "/language?to=de&back="+url.QueryEscape(back)).Header.Get("Location"); got != want {
			t.Errorf("at a site, back=%q leads to %q, want %q", back, got, want)
		}
	}
	t.Run("attack 282: another site does not choose the language", func(t *testing.T) {
		t.Parallel()
		for _, site := range []string{"cross-site", "same-site"} {
			if cookies := choose(p, "/language?to=de&back=/account", "Sec-Fetch-Site", site).Cookies(); len(cookies) != 0 {
				t.Errorf("GET /language from %s sets %v, want nothing", site, cookies)
			}
		}
	})
	forgotten := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil)
	forgotten.AddCookie(c)
	w := httptest.NewRecorder()
	if p.Forget(w, forgotten); len(w.Result().Cookies()) != 1 || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("Forget sets %v, want the cookie gone", w.Result().Cookies())
	}
	w = httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil)
	p.Choose(w, r, "nl-NL-informal")
	if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Value != "nl_nl_informal" {
		t.Errorf("Choose of a variant set %v", cookies)
	}
	if got := p.Words(context.Background(), []string{"fr"}).Lang(); got != "fr" {
		t.Errorf("words of an e-mail are in %q, want fr", got)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, help := range []string{"https://help.example.com/sign-in", "http://intranet/help", "mailto:help@example.com"} {
		p := newRenderer(t, web.Brand{Help: help})
		if body := render(p, views()["sign_in"]).Body.String(); !strings.Contains(body, `href="`+help+`" rel="noopener noreferrer">Help</a>`) {
			t.Errorf("the footer has no link to %s", help)
		}
	}
	t.Run("attack 276: help that is a script", func(t *testing.T) {
		t.Parallel()
		for _, help := range []string{
			"javascript:alert(1)", "data:text/html,x", "//evil.example", "/x", "https://", "https://u@h.example",
			"mailto:", "https://a b", "ftp://x.example",
		} {
			if _, err := web.New(web.Config{Brand: web.Brand{Help: help}, Issuer: "https://auth.example.com", Key: make([]byte, 32)}); err == nil {
				t.Errorf("New with help %q succeeded, want an error", help)
			}
		}
	})
}
