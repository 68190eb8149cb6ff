package web_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestPagesGolden(t *testing.T) {
	t.Parallel()
	// a change of the stylesheet does not change every page
	hash := regexp.MustCompile(`(/assets/[a-z_]+)-[0-9a-f]{12}\.`)
	for name, w := range everyPage(t) {
		file, body := filepath.Join("testdata", name+".html"), hash.ReplaceAll(w.Body.Bytes(), []byte("$1-HASH."))
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, body, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(body, want) {
			t.Errorf("page %q differs from %s; run `scripts/golden.sh all` and read the difference. It is now:\n%s", name, file, body)
		}
	}
}

// TestPagesArriveAtOnce bounds pages and stylesheets: about 14 kB arrive before a server has to wait for the browser.
func TestPagesArriveAtOnce(t *testing.T) {
	t.Parallel()
	for name, w := range everyPage(t) {
		if n := w.Body.Len(); n > 20_000 {
			t.Errorf("page %q has %d bytes, want at most 20000", name, n)
		}
	}
	p := newRenderer(t, web.Brand{})
	sheet := regexp.MustCompile(`/assets/console-[0-9a-f]+\.css`).FindString(render(p, views()["console"]).Body.String())
	more := httptest.NewRecorder()
	p.Assets().ServeHTTP(more, httptest.NewRequest(http.MethodGet, "https://auth.example.com"+sheet, nil))
	if more.Code != http.StatusOK || more.Body.Len() > 12_000 {
		t.Errorf("the stylesheet of the console has %d bytes, want at most 12000", more.Body.Len())
	}
	css := asset(t, newRenderer(t, web.Brand{}), "gatehouse.css")
	if css.Body.Len() > 15_000 {
		t.Errorf("stylesheet has %d bytes, want at most 15000", css.Body.Len())
	}
}

// TestPagesAreSound reads every page as a screen reader and a strict browser would.
func TestPagesAreSound(t *testing.T) {
	t.Parallel()
	for name, w := range everyPage(t) {
		doc, err := html.Parse(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		ids, labels, described := map[string]int{}, map[string]bool{}, []string{}
		count := map[string]int{}
		var inputs []string
		if html := doc.FirstChild.NextSibling; attr(html, "lang") == "" {
			t.Errorf("page %q has no language", name)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			count[n.Data]++
			attrs := map[string]string{}
			for _, a := range n.Attr {
				attrs[a.Key] = a.Val
				if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("page %q: attribute %s on %s, want none: the policy forbids it", name, a.Key, n.Data)
				}
				if a.Key == "autofocus" {
					count["autofocus"]++
				}
				if strings.Contains(a.Val, "//") && a.Key != "d" && !strings.HasPrefix(a.Val, "otpauth://") &&
					!strings.HasPrefix(a.Val, "https://shop.example.com/") && a.Val != "https://idp.example.com/sso" {
					t.Errorf("page %q: %s=%q leads elsewhere", name, a.Key, a.Val)
				}
			}
			if id := attrs["id"]; id != "" {
				ids[id]++
			}
			switch {
			case n.Data == "label":
				labels[attrs["for"]] = true
			case n.Data == "input" && attrs["type"] != "hidden", n.Data == "select", n.Data == "textarea":
				inputs = append(inputs, attrs["id"])
				if attrs["autocomplete"] == "" || attrs["name"] == "" || (n.Data == "input" && attrs["type"] == "") {
					t.Errorf("page %q: field %q has autocomplete %q, name %q and type %q, want all three", name, attrs["id"], attrs["autocomplete"],
						attrs["name"], attrs["type"])
				}
			case n.Data == "script" && attrs["src"] != "":
				count["script"]--
				count["ours"]++
				if !strings.HasPrefix(attrs["src"], "/assets/") || n.FirstChild != nil {
					t.Errorf("page %q has a script from %q", name, attrs["src"])
				}
			case n.Data == "svg" && attrs["aria-hidden"] != "true":
				t.Errorf("page %q: an icon is not hidden from screen readers", name)
			case n.Data == "img" && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "alt" }):
				t.Errorf("page %q: an image has no alt attribute, not even an empty one", name)
			case n.Data == "form" && attrs["method"] != "post" && attrs["role"] != "search":
				t.Errorf("page %q: form method %q, want post", name, attrs["method"])
			}
			described = append(described, strings.Fields(attrs["aria-describedby"]+" "+attrs["aria-labelledby"])...)
		}
		for id, n := range ids {
			if n > 1 {
				t.Errorf("page %q: id %q stands %d times", name, id, n)
			}
		}
		for _, id := range inputs {
			if id == "" || !labels[id] {
				t.Errorf("page %q: input %q has no label", name, id)
			}
		}
		for _, id := range described {
			if ids[id] == 0 {
				t.Errorf("page %q: described by %q, which does not exist", name, id)
			}
		}
		if count["h1"] != 1 || count["main"] != 1 || count["title"] != 1 {
			t.Errorf("page %q: h1 %d, main %d, title %d, want one each", name, count["h1"], count["main"], count["title"])
		}
		scripts := 0
		if strings.HasPrefix(name, "form_post") {
			scripts = 1 // its policy names it by hash
		}
		frames := 0
		if name == "signed_out_on" || name == "signing_out" {
			frames = 2 // the policy names what they can load
		}
		if count["script"] != scripts || count["style"] > 0 || count["iframe"] != frames {
			t.Errorf("page %q has script, style or iframe elements", name)
		}
		if csp := w.Header().Get("Content-Security-Policy"); strings.Contains(csp, "script-src 'self';") != (count["ours"] > 0) {
			t.Errorf("page %q has %d of our scripts and the policy %q", name, count["ours"], csp)
		}
		if count["autofocus"] > 1 {
			t.Errorf("page %q: %d elements take the focus, want at most one", name, count["autofocus"])
		}
	}
}

func TestPageHeaders(t *testing.T) {
	t.Parallel()
	pages := everyPage(t)
	t.Run("attack 272: every page forbids what is not ours", func(t *testing.T) {
		t.Parallel()
		for name, w := range pages {
			csp := w.Header().Get("Content-Security-Policy")
			for _, want := range []string{
				"default-src 'none'", "style-src 'self'", "object-src 'none'", "base-uri 'none'",
				"frame-ancestors 'none'", "form-action 'self'",
			} {
				switch name {
				case "form_post":
					// on that page only
					want = strings.Replace(want, "form-action 'self'", "form-action https://shop.example.com/callback", 1)
				case "form_post_away":
					want = strings.Replace(want, "form-action 'self'", "form-action https:", 1)
				}
				if !slices.ContainsFunc(strings.Split(csp, "; "), func(d string) bool { return d == want || strings.HasPrefix(d, want+" ") }) {
					t.Errorf("page %q: policy %q, want %s", name, csp, want)
				}
			}
			if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
				t.Errorf("page %q: policy %q is too wide", name, csp)
			}
		}
		if csp := pages["consent"].Header().Get("Content-Security-Policy"); !strings.HasSuffix(csp,
			"form-action 'self' https://shop.example.com com.example.app:") {
			t.Errorf("policy %q, want form-action to name the client's targets", csp)
		}
	})
	t.Run("attack 273: no page can be framed", func(t *testing.T) {
		t.Parallel()
		for name, w := range pages {
			if got := w.Header().Get("X-Frame-Options"); got != "DENY" {
				t.Errorf("page %q: X-Frame-Options %q, want DENY", name, got)
			}
		}
	})
	t.Run("attack 34: no referrer leaves, nothing comes from elsewhere", func(t *testing.T) {
		t.Parallel()
		for name, w := range pages {
			if got := w.Header().Get("Referrer-Policy"); got != "same-origin" {
				t.Errorf("page %q: Referrer-Policy %q, want same-origin", name, got)
			}
		}
		// A page on a site's own address has no form, and its address may hold a one-time code.
		w := httptest.NewRecorder()
		newRenderer(t, web.Brand{}).On("https://wiki.example.com", "/.gatehouse").Error(w, httptest.NewRequest(http.MethodGet, "/", nil),
			http.StatusBadRequest, "error.expired", "")
		if got := w.Header().Get("Referrer-Policy"); got != "no-referrer" {
			t.Errorf("page of a site: Referrer-Policy %q, want no-referrer", got)
		}
	})
	t.Run("attack 279: no page is kept", func(t *testing.T) {
		t.Parallel()
		for name, w := range pages {
			h := w.Header()
			if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Vary") == "" {
				t.Errorf("page %q: headers %v, want no-store, nosniff and Vary", name, h)
			}
		}
	})
}

func TestFormAction(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	for target, ok := range map[string]bool{
		"https://app.example.com": true, "http://127.0.0.1:8080": true, "com.example.app:": true,
		"*": false, "https:": false, "https://*.example.com": false, "https://a.example; script-src *": false,
		"'unsafe-inline'": false, "javascript:": false,
		"data:": false, "https://a.example/path": false, "https://u@a.example": false, "https://a.example,b": false, "": false,
		"a\nb:": false, "//a.example": false,
	} {
		w := render(p, web.View{Template: "sign_in", Client: authn.Client{Name: "x", Targets: []string{target}}, Data: web.SignIn{}})
		csp := w.Header().Get("Content-Security-Policy")
		want := "form-action 'self'"
		if ok {
			want += " " + target
		}
		if !strings.HasSuffix(csp, want) {
			t.Errorf("target %q: policy %q, want it to end in %q", target, csp, want)
		}
	}
}

// TestFormPostPolicy checks that the form of a form_post answer can go to the redirect URI only. (OAuth 2.0 Form Post
// Response Mode)
func TestFormPostPolicy(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	for action, want := range map[string]string{
		"https://app.example.com/cb":            "https://app.example.com/cb",
		"https://app.example.com/cb?a=b":        "https://app.example.com/cb",
		"https://app.example.com:8443/":         "https://app.example.com:8443/",
		"https://app.example.com":               "https://app.example.com/",
		"http://127.0.0.1:9/cb":                 "http://127.0.0.1:9/cb",
		"https://app.example.com/a,script-src*": "https://app.example.com/a%2Cscript-src*",
		"https://app.example.com/a;b":           "'none'",
		"http://[::1]/cb":                       "'none'",
		"com.example.app:/cb":                   "'none'",
		"javascript:alert(1)":                   "'none'",
		"https://*/cb":                          "'none'",
		"https://u@app.example.com/":            "'none'",
	} {
		w := render(p, web.View{Template: "form_post", Client: shop, Data: web.FormPost{Action: action}})
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasSuffix(csp, "form-action "+want) || web.IsFormTarget(action) != (want != "'none'") {
			t.Errorf("FormPost(%q): policy %q, want it to end in %q", action, csp, want)
		}
		if !strings.Contains(csp, "default-src 'none'; script-src 'sha256-") || strings.Contains(csp, "unsafe") {
			t.Errorf("FormPost(%q): policy %q allows more than the one script", action, csp)
		}
	}
}

func TestTextsAreText(t *testing.T) {
	t.Parallel()
	t.Run("attack 276: stored text never becomes markup", func(t *testing.T) {
		t.Parallel()
		evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>`
		p := newRenderer(t, web.Brand{Name: evil})
		for _, v := range []web.View{
			{
				Template: "sign_in", Client: authn.Client{Name: evil},
				Data: web.SignIn{Username: evil, Cancel: "javascript:alert(1)", CSRF: evil, Action: "javascript:alert(1)"},
			},
			{Template: "choose", Client: authn.Client{Name: evil}, Data: web.Choose{Account: evil, Detail: evil}},
			{Template: "token", Data: web.Token{Account: evil, Detail: evil}},
			{
				Template: "consent", Client: authn.Client{Name: evil},
				Data: web.Consent{Account: evil, Owner: evil, RequestID: evil, Scopes: []web.ScopeLine{{Name: evil}, {Name: "x", Description: evil}}},
			},
			{
				Template: "dashboard", Nav: &web.Nav{Name: evil, SignOut: evil, Back: "javascript:alert(1)", BackName: evil},
				Data: web.Dashboard{
					Key: evil, Names: []string{evil},
					Cards: []web.Card{{Title: evil, URL: "javascript:alert(1)", Text: web.Say(evil), Kind: "good"}},
					Parts: []web.Part{
						{
							ID: "a", Title: web.Say(evil), Text: web.Say("account.signed_in", "x", evil), Empty: evil,
							Facts: []web.Fact{{Label: evil, Value: evil}}, Links: []web.Action{{Label: evil, URL: "javascript:alert(1)"}},
						},
						{Rows: []web.Row{{Name: evil, Mark: web.Say(evil), Details: []web.Text{web.Say(evil)}}}},
					},
				},
			},
			{Template: "console", Nav: &web.Nav{Name: evil, SignOut: evil}, Data: web.Console{
				Name: evil, Tags: []web.Cell{{Name: evil, Kind: "plain"}}, Up: &web.Up{Name: evil, URL: "javascript:alert(1)"},
				Filter: &web.Filter{Action: "/x", Fields: []web.Field{{Name: "q", Value: evil, Label: evil}}},
				Done:   web.Say(evil), Lead: web.Say("console.act.edit.text", "name", evil),
				Actions: []web.Action{{Label: evil, URL: "javascript:alert(1)"}},
				Parts: []web.ConsolePart{{
					ID: "a", Title: web.Say(evil),
					Facts: []web.ConsoleFact{{
						Label: evil,
						Cells: []web.Cell{{Name: evil, Note: evil, URL: "javascript:alert(1)"}, {Name: evil, Code: true}},
					}}, Source: evil,
					Secret: &web.Secret{Text: web.Say(evil), Value: evil},
					Table: &web.Table{
						Label: web.Say(evil), Columns: []string{evil},
						Rows: []web.TableRow{{URL: "javascript:alert(1)", Cells: []web.Cell{{Name: evil, Note: evil}}}},
					},
					Form: &web.ConsoleForm{
						Action: "javascript:alert(1)", CSRF: evil, Submit: evil,
						Fields: []web.Field{{Name: "t", Type: "textarea", Value: "</textarea>" + evil}},
					},
				}},
			}},
			{Template: "sign_out", Data: web.SignOut{Account: evil, Hidden: map[string]string{evil: evil}}},
			{Template: "signed_out", Data: web.SignedOut{Continue: "javascript:alert(1)"}},
			{Template: "signed_out", Data: web.SignedOut{Continue: "JavaScript:alert(1)", GoOn: true}},
		} {
			body := render(p, v).Body.String()
			if strings.Contains(withoutOurs(body), "<script") || strings.Contains(body, "<img src=x") || strings.Contains(body, `="javascript:`) {
				t.Errorf("page %q runs what was stored:\n%s", v.Template, body)
			}
		}
	})
	t.Run("attack 278: braces in names stay what they are", func(t *testing.T) {
		t.Parallel()
		p := newRenderer(t, web.Brand{Name: `{{.CSS}} ${7*7} {client}`})
		body := render(p, web.View{
			Template: "consent", Client: authn.Client{Name: `{{ env "X" }}{owner}{brand}`},
			Data: web.Consent{Owner: "o"},
		}).Body.String()
		for _, want := range []string{`{{.CSS}} ${7*7} {client}`, `{{ env &#34;X&#34; }}{owner}{brand}`} {
			if !strings.Contains(body, want) {
				t.Errorf("page has no literal %q:\n%s", want, body)
			}
		}
	})
	t.Run("attack 283: languages of the browser are not repeated", func(t *testing.T) {
		t.Parallel()
		p := newRenderer(t, web.Brand{})
		for _, lang := range []string{
			"../../etc/passwd", "en_US_<script>", "{env.HOME}", "x-klingon", strings.Repeat("a-", 5000),
			"de, en;q=0", "\xff\xfe",
		} {
			r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/", nil)
			r.Header.Set("Accept-Language", lang)
			w := httptest.NewRecorder()
			p.Render(w, r, web.View{Template: "signed_out", Locales: []string{lang}, Data: web.SignedOut{}})
			if w.Code != 200 || w.Header().Get("Content-Language") != "en" || strings.Contains(w.Body.String(), lang) {
				t.Errorf("Accept-Language %.20q: status %d, language %q", lang, w.Code, w.Header().Get("Content-Language"))
			}
		}
	})
}

func TestBrokenViewIsAnError(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	for _, v := range []web.View{{Template: "no_such"}, {Template: "sign_in"}, {Template: "dashboard", Data: web.SignIn{}}} {
		w := render(p, v)
		if w.Code != 500 || !strings.Contains(w.Body.String(), "Something went wrong") || strings.Contains(w.Body.String(), "page.") {
			t.Errorf("view %+v: status %d, body\n%s", v, w.Code, w.Body)
		}
	}
}

func TestErrorReference(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{})
	r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil)
	w := httptest.NewRecorder()
	if ref := p.Error(w, r, 503, "error.unavailable", "//evil.example"); ref == "" || !strings.Contains(w.Body.String(), ref) {
		t.Errorf("Error(503) = %q, want a reference that the page shows", ref)
	}
	if got := w.Header().Get("Retry-After"); got == "" {
		t.Error("Error(503) has no Retry-After")
	}
	if strings.Contains(w.Body.String(), "evil.example") {
		t.Error("the link to start again leads elsewhere")
	}
	w = httptest.NewRecorder()
	if ref := p.Error(w, r, 400, "error.client", ""); ref != "" || strings.Contains(w.Body.String(), "eference") {
		t.Errorf("Error(400) = %q, want no reference: the same page each time", ref)
	}
}

func TestLocalPath(t *testing.T) {
	t.Parallel()
	t.Run("attack 281: only a path of our own is followed", func(t *testing.T) {
		t.Parallel()
		for _, evil := range []string{
			"//evil.example", "https:evil.example", `/\evil.example`, "/%09/evil.example", "///evil.example",
			"javascript:alert(1)", "/..//evil.example",
			"https://evil.example", "evil.example", "", "/%2f/evil.example", "/%5cevil.example", "/a/../b", "/a/%2e%2e/b", "/a\nb", "/a b",
			"/\x00", "/%00", "/é", "/a#b", "/%zz",
			"/" + strings.Repeat("a", 5000), "\\\\evil.example", "/.", "//",
		} {
			if got := web.LocalPath(evil); got != "" {
				t.Errorf("LocalPath(%q) = %q, want nothing", evil, got)
			}
		}
	})
	for _, good := range []string{"/", "/account", "/oauth/authorize?request=abc&x=%2F%2Fy", "/oauth/site?flow=1", "/a?u=https://x.example/"} {
		if got := web.LocalPath(good); got != good {
			t.Errorf("LocalPath(%q) = %q, want it unchanged", good, got)
		}
	}
}

// TestMessagesExist finds the keys that templates and code name.
func TestMessagesExist(t *testing.T) {
	t.Parallel()
	for name, w := range everyPage(t) {
		if key := regexp.MustCompile(`\b(sign_in|choose|consent|sign_out|signed_out|account|error|problem|footer|duration|scope)\.[a-z_.]+[a-z]\b`).FindString(w.Body.String()); key != "" {
			t.Errorf("page %q shows the key %q", name, key)
		}
		if left := regexp.MustCompile(`\{(client|brand|time|n|host|ref|owner|account)\}`).FindString(w.Body.String()); left != "" {
			t.Errorf("page %q shows the placeholder %q", name, left)
		}
	}
}

func asset(t *testing.T, p *web.Renderer, name string) *httptest.ResponseRecorder {
	t.Helper()
	stem, ext, _ := strings.Cut(name, ".")
	path := regexp.MustCompile(`/assets/` + stem + `-[0-9a-f]+\.` + ext).FindString(render(p, views()["sign_in"]).Body.String())
	if path == "" {
		t.Fatalf("the page names no %s", name)
	}
	return get(p, path)
}

func TestAssets(t *testing.T) {
	t.Parallel()
	p := newRenderer(t, web.Brand{Color: "#0a7"})
	w := asset(t, p, "gatehouse.css")
	if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") ||
		w.Header().Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("stylesheet: status %d, headers %v", w.Code, w.Header())
	}
	if icon := asset(t, p, "icon.svg"); icon.Code != 200 || !strings.Contains(icon.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("icon: status %d, headers %v", icon.Code, icon.Header())
	}
	if old := get(p, "/assets/gatehouse-000000000000.css"); old.Code != 200 || old.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("stylesheet of another hash: status %d, Cache-Control %q, want what is current, not kept", old.Code,
			old.Header().Get("Cache-Control"))
	}
	for _, path := range []string{"/assets/", "/assets/x", "/assets/../page.go", "/assets/gatehouse-1/x.css", "/assets/logo-1.png"} {
		if got := get(p, path); got.Code != 404 {
			t.Errorf("GET %s: status %d, want 404", path, got.Code)
		}
	}
	for accepts, want := range map[string]string{
		"gzip, br": "gzip", "br;q=1, GZIP;q=0.5": "gzip", "gzip;q=0": "", "br": "", "": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/assets/gatehouse-1.css", nil)
		r.Header.Set("Accept-Encoding", accepts)
		zipped := httptest.NewRecorder()
		p.Assets().ServeHTTP(zipped, r)
		h := zipped.Header()
		body := io.Reader(zipped.Body)
		if want != "" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatalf("Accept-Encoding %q: %v", accepts, err)
			}
			body = z
		}
		plain, err := io.ReadAll(body)
		if h.Get("Content-Encoding") != want || h.Get("Vary") != "Accept-Encoding" || err != nil || string(plain) != w.Body.String() {
			t.Errorf("Accept-Encoding %q: encoding %q, Vary %q, %v; want %q and the same style sheet", accepts, h.Get("Content-Encoding"),
				h.Get("Vary"), err, want)
		}
		again := httptest.NewRecorder()
		r.Header.Set("If-None-Match", h.Get("ETag"))
		if p.Assets().ServeHTTP(again, r); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("Accept-Encoding %q: the same again = %d, want 304", accepts, again.Code)
		}
	}
	w = httptest.NewRecorder()
	p.Assets().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/assets/x", nil))
	if w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: status %d, Allow %q, want 405 with Allow", w.Code, w.Header().Get("Allow"))
	}
}

func TestLogo(t *testing.T) {
	t.Parallel()
	encode := func(w, h int) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	p := newRenderer(t, web.Brand{Name: "Albers", Logo: encode(120, 40)})
	if body := render(p, views()["sign_in"]).Body.String(); !strings.Contains(body, `alt="Albers" width="120" height="40"`) {
		t.Errorf("page shows no logo:\n%s", body)
	}
	if w := asset(t, p, "logo.png"); w.Code != 200 || w.Header().Get("Content-Type") != "image/png" {
		t.Errorf("logo: status %d, headers %v", w.Code, w.Header())
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32)}
	for name, change := range map[string]func(*web.Config){
		"short key":      func(c *web.Config) { c.Key = c.Key[:16] },
		"no issuer":      func(c *web.Config) { c.Issuer = "" },
		"bad color":      func(c *web.Config) { c.Brand.Color = "red" },
		"bad locale":     func(c *web.Config) { c.Locales = []string{"!"} },
		"unknown locale": func(c *web.Config) { c.Locales = []string{"en", "xh"} },
	} {
		c := good
		change(&c)
		if _, err := web.New(c); err == nil {
			t.Errorf("New with %s succeeded, want an error", name)
		}
	}
	if _, err := web.New(good); err != nil {
		t.Error(err)
	}
}

// TestEveryTemplateIsSeen: a test of all pages must cover each template.
func TestEveryTemplateIsSeen(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("templates/[a-z]*.html")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{"error": true}
	for _, v := range views() {
		seen[v.Template] = true
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".html"); !seen[name] {
			t.Errorf("views() has no page of the template %s", name)
		}
	}
}

// withoutOurs is a page without our own scripts, which come from files.
func withoutOurs(body string) string { return strings.ReplaceAll(body, `<script src="/assets/`, "") }
