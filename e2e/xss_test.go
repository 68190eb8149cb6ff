package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var (
	wholeXSS = flag.Bool("xss", false, "all payloads of the XSS matrix, not a sample")
	xssSeed  = flag.Uint64("seed", 1, "seed of the sample of the XSS matrix")
)

const (
	samplePayloads = 3
	perServer      = 10 // payloads of the whole matrix: the servers run in parallel
)

// canary is in every payload: an answer without it shows nothing of a payload. Payloads in requests have another one
// than stored payloads, too long to occur by chance in one of the thousands of random flow names.
const canary, requestCanary = "xq7z", "qx7zasked"

// payloads are the markup, scripts and templates to put wherever something can be put.
func payloads(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("testdata/xss.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(list) < 40 {
		t.Fatalf("%d payloads, want 40", len(list))
	}
	return list
}

// sample returns some of the payloads, or all of them on request.
func sample(list []string, n int) []string {
	if *wholeXSS {
		return list
	}
	rnd := rand.New(rand.NewPCG(*xssSeed, 0)) //nolint:gosec // a sample
	var out []string
	for _, i := range rnd.Perm(len(list))[:n] {
		out = append(out, list[i])
	}
	return out
}

// lookout is a browser that notices every effect of a payload: a script that runs, or that a policy had to stop, and an
// element or attribute that the payload creates.
type lookout struct {
	*tab
	mu   sync.Mutex // guards seen
	seen []string
}

func (s *server) lookOut(t *testing.T) *lookout {
	t.Helper()
	l := &lookout{tab: s.browse(t)}
	if err := chromedp.Listen(l.ctx, func(ev any) {
		if e, ok := ev.(*runtime.EventBindingCalled); ok && e.Name == "pwned" {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.seen = append(l.seen, e.Payload)
		}
	}); err != nil {
		t.Fatal(err)
	}
	call(l.tab, runtime.AddBinding, runtime.AddBindingParams{Name: "pwned"})
	call(l.tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `document.addEventListener('securitypolicyviolation', e => pwned('stopped ' + e.effectiveDirective + ' ' + e.blockedURI + ' ' + e.sample))`,
	})
	return l
}

// elements finds the elements that a payload has put into the page.
const elements = `[...document.querySelectorAll('*')].filter(e =>
	e.matches('[xq7z],[qx7zasked],script:not([src^="/assets/"]),object,embed,base,math,style,form[action^="javascript:" i]') || e.matches('iframe:not([src^="http"])') ||
	e.getAttributeNames().some(n => n.startsWith('on')) ||
	['href', 'src', 'action', 'formaction', 'xlink:href', 'data'].some(n => /^\s*(javascript|data|vbscript):/i.test(e.getAttribute(n) ?? ''))
).map(e => e.outerHTML.slice(0, 200))`

// done returns what the displayed page let a payload do.
func (l *lookout) done() []string {
	l.t.Helper()
	out := eval[[]string](l.tab, elements)
	text := html.UnescapeString(eval[string](l.tab, `document.documentElement.outerHTML`))
	if isFilledIn(text, canary) || isFilledIn(text, requestCanary) {
		out = append(out, "a template was filled in")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out = append(out, l.seen...)
	l.seen = nil
	return out
}

// isFilledIn reports whether a page shows a template in a payload as something other than itself.
func isFilledIn(text, canary string) bool {
	parts := strings.Split(text, canary)
	return slices.ContainsFunc(parts[1:], func(after string) bool {
		return strings.HasPrefix(after, "49") ||
			strings.HasPrefix(after, "{{") && !strings.HasPrefix(after, `{{printf "%d" 49}}{{.}}{{7*7}}`) ||
			strings.HasPrefix(after, "${") && !strings.HasPrefix(after, "${7*7}#{7*7}<%= 7*7 %>{env.HOME}")
	})
}

// TestIsFilledIn: templates are told from their results.
func TestIsFilledIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "xq7z": false, `<svg/xq7z/onload=x>`: false, `xq7z{{printf "%d" 49}}{{.}}{{7*7}} 49`: false,
		"xq7z${7*7}#{7*7}<%= 7*7 %>{env.HOME}{$HOME}": false,
		"xq7z49{{.}}{{7*7}}":                          true, `xq7z{{printf "%d" 49}}map[]{{7*7}}`: true,
		"a xq7z b xq7z${7*7}49<%= 7*7 %>{env.HOME}": true,
		"xq7z${7*7}#{7*7}<%= 7*7 %>/root":           true,
	} {
		if got := isFilledIn(text, canary); got != want {
			t.Errorf("isFilledIn(%q) = %t, want %t", text, got, want)
		}
	}
}

// TestXSSControl: pages that repeat their input, with and without a policy, show that the lookout notices every
// effective payload.
func TestXSSControl(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/policy" {
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'")
		}
		w.Header().Set("Content-Type", "text/html")
		x := r.URL.Query().Get("x")
		// attributes only cut a template in two: what matters is whether it is filled in
		if strings.HasPrefix(x, canary) {
			x = strings.ReplaceAll(html.EscapeString(x), " ", "&#32;")
		}
		fmt.Fprintf(w, "<!doctype html><title>x</title><p>%s</p><input value=\"%s\"><input value='%s'><input value=%s><a href=\"%s\">x</a><textarea>%s</textarea><!--%s-->",
			x, x, x, x, x, x, x)
	}))
	t.Cleanup(web.Close)
	l := s.lookOut(t)
	for _, path := range []string{"/plain", "/policy"} {
		l.open(web.URL + path + "?x=nothing")
		if got := l.done(); len(got) > 0 {
			t.Errorf("%s without a payload: %q", path, got)
		}
		for _, p := range payloads(t) {
			l.open(web.URL + path + "?x=" + url.QueryEscape(p))
			// Other scripts, other encodings and templates have no effect even here.
			harmless := strings.HasPrefix(p, "＜") || strings.HasPrefix(p, "%3C") || strings.HasPrefix(p, "+ADw") || strings.HasPrefix(p, canary)
			if got := l.done(); (len(got) == 0) != harmless {
				t.Errorf("%s with %s: %q, harmless %t", path, p, got, harmless)
			}
		}
	}
}

// hostile is a server with a payload in everything that a person, a client or an administrator can set.
type hostile struct {
	*everything
	l                  *lookout
	routes, parameters []string
	password           string
	from               int // place of the first payload in the sample
	opened             map[string]bool
	shown              int
}

func username(i int) string { return fmt.Sprintf("victim-%d@example.com", i) }
func clientID(i int) string { return fmt.Sprintf("client-%d", i) }

// TestXSS puts payloads into every parameter of every page, every field of every form and everything that is stored,
// and looks at each answer that repeats one: no payload runs, and each is text only.
func TestXSS(t *testing.T) {
	t.Parallel()
	n, first := 1, 0
	if *wholeXSS {
		n = perServer
	}
	for list := range slices.Chunk(sample(payloads(t), samplePayloads), n) {
		from := first
		first += len(list)
		t.Run(fmt.Sprint("payloads from ", from), func(t *testing.T) {
			t.Parallel()
			besiege(t, list, from)
		})
	}
}

// besiege tries these payloads on their own server. from is the place of the first in the sample.
func besiege(t *testing.T, list []string, from int) {
	t.Helper()
	h := &hostile{
		from: from, password: random(12),
		routes:     append(identityRoutes(t), "/nowhere", "/oauth/authorize", "/oauth/logout", "/oauth/site", "/oauth/consent"),
		parameters: pageParameters(t),
	}
	h.everything = openEverything(t, func(caddyfile string) string {
		var scopes strings.Builder
		for i, p := range list {
			fmt.Fprintf(&scopes, "\t\tscope hostile.%d {\n\t\t\tdescription \"%s\"\n\t\t}\n",
				i, strings.NewReplacer("{$HOME}", "", `"`, `\"`, "{", `\{`, "}", `\}`).Replace(p))
		}
		return strings.Replace(caddyfile, "\t\tclient shop {", scopes.String()+"\t\tclient shop {", 1)
	}, func(e *everything) {
		h.everything = e
		h.store(list)
	})
	h.l = h.lookOut(t)
	for i, p := range list {
		h.opened = map[string]bool{}
		before := h.shown
		h.configureHostile(i, p)
		h.ask(i, p, "")
		h.signInAs(i, p)
		h.ask(i, p, h.cookies())
		h.pages(i, p)
		h.forget()
		t.Logf("%s: %d pages show it", p, h.shown-before)
		if h.shown-before < 5 {
			t.Errorf("%s: %d pages show it, want more: is it stored?", p, h.shown-before)
		}
	}
	h.mu.Lock() // tokens and codes with payloads are not secrets
	maps.DeleteFunc(h.secrets, func(value, _ string) bool { return strings.Contains(value, requestCanary) })
	h.mu.Unlock()
}

// admin posts to the admin API.
func (h *hostile) admin(path string, body any) (int, string) {
	h.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := http.Post("http://"+h.Admin+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, text.String()
}

// store adds a group, a person and a client for each payload, with the payload wherever it is accepted.
func (h *hostile) store(list []string) {
	h.t.Helper()
	h.secret("password of the victims", h.password)
	for i, p := range list {
		// characters that a name must not contain are left out, as few as possible
		short := p[:min(len(p), 100)]
		group := "group-" + fmt.Sprint(i)
		if status, _ := h.admin("/gatehouse/groups", map[string]any{"group": short}); status == http.StatusOK {
			group = short
		}
		victim := map[string]any{
			"username": username(i), "password": h.password, "name": p, "given_name": p, "family_name": p, "groups": []string{group},
			"email": "<img/" + canary + "/src=x/onerror=pwned('" + canary + "')>@example.com",
		}
		status, answer := h.admin("/gatehouse/persons", victim)
		if status != http.StatusOK {
			delete(victim, "email")
			status, answer = h.admin("/gatehouse/persons", victim)
		}
		if status != http.StatusOK {
			h.t.Fatalf("person named %s: %d %s", p, status, answer)
		}
		if status, answer := h.admin("/gatehouse/clients", map[string]any{
			"id": clientID(i), "name": p, "redirect_uris": []string{"http://127.0.0.1:1/callback"}, "grants": []string{"authorization_code"},
			"scopes": []string{"openid", "profile", fmt.Sprintf("hostile.%d", i)},
		}); status != http.StatusOK {
			h.t.Fatalf("client named %s: %d %s", p, status, answer)
		}
	}
}

// configureHostile puts the payload into the texts of the pages and into names that administrators choose.
func (h *hostile) configureHostile(i int, p string) {
	h.t.Helper()
	q := quote(p)
	method := `"type":"OPEN_ID_CONNECT","enabled":true,"open_id_connect_attributes":{"client_id":"x","manual_metadata_setup":true,"issuer":"https://partner.invalid",` +
		`"authorization_url":"https://partner.invalid/a","id_token_url":"https://partner.invalid/t","jwks_url":"https://partner.invalid/k"}`
	organisation := `{"id":"evil","name":` + q + `,"message_to_assist_user_during_migration_period_html":` + q + `,"service_providers":{` +
		quote(clientID(i)) + `:{"name":` + q + `}}`
	for _, member := range []string{"site_url", "support_url", "support_email", "landing_page_url", "account_link_url", "preferred_language"} {
		with := organisation + `,"` + member + `":` + q // usually an address, which a payload is not
		if status, _ := h.configure(http.MethodPost, "/api/v2/config", `{"organisations":[`+with+`}]}`); status == http.StatusNoContent {
			organisation = with
		}
	}
	taken := 0
	for _, body := range []string{
		`{"login_methods":{"login_methods":[{"id":"partner","name":` + q + `,` + method + `}]}}`,
		`{"login_methods":{"login_methods":[{"id":"identity","name":` + q +
			`,"type":"USERNAME_AND_PASSWORD","enabled":true,"authentication_level":1,"custom_attribute_fields":[` +
			`{"id":"a","name":` + q + `,"type":"TEXT"},{"id":"b","name":` + q + `,"type":"CHECKBOX"}]},{"id":"partner","name":` +
			q + `,` + method + `}]}}`,
		`{"custom_messages":{"default":{"sign_in.title":` + q + `,"sign_in.username":` + q + `,"sign_in.submit":` + q +
			`,"account.overview.title":` + q + `,"footer.host":` + q + `}}}`,
		`{"messages":{"en":{"sign_in.password":` + q + `,"error.not_found.title":` + q + `,"error.not_found.text":` + q + `}}}`,
		`{"organisations":[` + organisation + `}]}`,
	} {
		if status, _ := h.configure(http.MethodPost, "/api/v2/config", body); status == http.StatusNoContent {
			taken++
		}
	}
	if taken == 0 {
		h.t.Errorf("no unit accepts %s", p)
	}
}

// cookies is the browser's Cookie header.
func (h *hostile) cookies() string {
	h.t.Helper()
	var parts []string
	for name, value := range h.l.jar() {
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, "; ")
}

// look opens an address in the browser and reports what a payload did there.
func (h *hostile) look(address, what string) {
	h.t.Helper()
	if h.opened[what] {
		return
	}
	h.opened[what] = true
	h.shown++
	h.l.open(address)
	if got := h.l.done(); len(got) > 0 {
		h.t.Errorf("attack 276: %s: %q", what, got)
	}
}

// ask requests every page with the payload in each parameter, in the path and in the headers, and opens those that
// repeat it.
func (h *hostile) ask(i int, p, cookies string) {
	h.t.Helper()
	p = strings.ReplaceAll(p, canary, requestCanary)
	escaped := url.QueryEscape(p)
	for _, path := range h.routes {
		if a := h.fetch(cookies, h.Issuer+path+"/"+url.PathEscape(p)); h.repeats(a) {
			h.look(h.Issuer+path+"/"+url.PathEscape(p), fmt.Sprintf("%s in the path of %s", p, path))
		}
		for _, name := range []string{"User-Agent", "Referer", "Accept-Language", "Origin"} {
			if a := h.fetch(cookies, h.Issuer+path, name, p); h.repeats(a) && !h.repeats(h.fetch(cookies, h.Issuer+path)) {
				h.t.Errorf("%s repeats %s", path, name)
			}
		}
		for j, name := range h.parameters {
			if !*wholeXSS && j%samplePayloads != h.from+i { // each parameter once
				continue
			}
			address := h.Issuer + path + "?" + name + "=" + escaped
			// with the parameters that it needs to get further
			if path == "/oauth/authorize" && name != "client_id" && name != "redirect_uri" {
				address += "&client_id=shop&redirect_uri=" + url.QueryEscape(h.Callback) + "&response_type=code"
				if name != "scope" {
					address += "&scope=openid"
				}
			}
			// one look at each place with such a payload
			a := h.fetch(cookies, address)
			if !h.repeats(a) {
				continue
			}
			if place := placeOf(a, name); place != "" && (*wholeXSS || !h.opened[place]) && !h.opened[path+place] {
				h.opened[place], h.opened[path+place] = true, true
				h.look(address, fmt.Sprintf("%s in %s of %s, signed in %t", p, name, path, cookies != ""))
			}
		}
	}
}

// repeats reports whether a page repeats the input. An answer that is not a page must not become one.
func (h *hostile) repeats(a fetched) bool {
	h.t.Helper()
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		return strings.Contains(a.body, requestCanary)
	}
	if strings.Contains(a.body, requestCanary) && a.header.Get("X-Content-Type-Options") != "nosniff" {
		h.t.Errorf("attack 276: %s repeats a payload as %q without nosniff", a.where.Path, a.header.Get("Content-Type"))
	}
	return false
}

// placeOf is the tag or the text in which an answer repeats a payload, without differences between parameters and
// paths.
func placeOf(a fetched, parameter string) string {
	before, _, ok := strings.Cut(a.body, requestCanary)
	if !ok {
		return ""
	}
	before = before[strings.LastIndexByte(before, '\n')+1:]
	if i := strings.IndexAny(before, "?"); i >= 0 {
		before = before[:i]
	}
	return strings.ReplaceAll(strings.ReplaceAll(before, parameter, ""), a.where.Path, "") + "…"
}

// signInAs signs in a person with the payload in the name, in a browser with it in its User-Agent, at a client with it
// in its name.
func (h *hostile) signInAs(i int, p string) {
	h.t.Helper()
	call(h.l.tab, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: p})
	address := h.Issuer + "/oauth/authorize?" + url.Values{
		"client_id": {clientID(i)}, "redirect_uri": {"http://127.0.0.1:1/callback"}, "response_type": {"code"},
		"scope":          {fmt.Sprintf("openid hostile.%d", i)},
		"code_challenge": {strings.Repeat("x", 43)}, "code_challenge_method": {"S256"},
	}.Encode()
	h.look(address, p+" in the name of a client")
	h.l.fill("#username", username(i))
	if !h.l.has("#password") { // the username comes first
		h.l.click("main form button:not([type=button])")
	}
	h.l.fill("#password", h.password)
	h.l.click("main form button:not([type=button])")
	h.shown++
	if text := h.l.text("main"); !strings.Contains(text, canary) {
		h.t.Errorf("after sign-in %s says %q, want %q in it", h.l.location(), text, p)
	}
	if got := h.l.done(); len(got) > 0 {
		h.t.Errorf("attack 276: %s on the consent page: %q", p, got)
	}
	// Consent is given, so the account pages name the client; the browser has nowhere to go afterwards.
	for _, f := range readForms(h.l.tab) {
		if pathOf(f.Action) == "/oauth/consent" {
			v := f.values()
			v.Set("decision", "allow")
			h.send(f.Action, v)
		}
	}
}

// send posts a form of a page that the browser shows.
func (h *hostile) send(address string, form url.Values) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if a := h.answerTo(req, h.l.jar(), []string{"Sec-Fetch-Site", "same-origin"}); a.status != http.StatusFound &&
		a.status != http.StatusSeeOther {
		h.t.Errorf("%s of the form = %d, want a redirect: %.300s", pathOf(address), a.status, a.body)
	}
}

// pages visits all pages of the person, and sends each field of each form with the payload in it.
func (h *hostile) pages(i int, p string) {
	h.t.Helper()
	seen := map[string]bool{}
	queue := slices.Clone(h.routes)
	var forms []form
	for len(queue) > 0 {
		address := queue[0]
		queue = queue[1:]
		if strings.HasPrefix(address, "/") {
			address = h.Issuer + address
		}
		if u, err := url.Parse(address); err != nil || seen[u.Path+u.Query().Get("method")] {
			continue
		} else {
			seen[u.Path+u.Query().Get("method")] = true
		}
		a := h.fetch(h.cookies(), address)
		if !strings.HasPrefix(a.where.String(), h.Issuer) || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") ||
			a.header.Get("Content-Disposition") != "" {
			continue
		}
		h.look(address, fmt.Sprintf("%s, signed in as person %d, on %s", p, i, address))
		forms = append(forms, readForms(h.l.tab)...)
		queue = append(queue, eval[[]string](h.l.tab,
			`[...document.querySelectorAll('a[href]')].map(a => a.href).filter(a => a.startsWith(`+quote(h.Issuer+"/")+`))`)...)
	}
	for _, f := range forms {
		if !f.asksFor() || seen[f.Action+f.names()] {
			continue
		}
		seen[f.Action+f.names()] = true
		h.fill(f, p)
	}
}

// fill sends the form with the payload in all of its fields, and then in one after the other with valid values in the
// rest.
func (h *hostile) fill(f form, p string) {
	h.t.Helper()
	all := map[string]string{}
	for _, x := range f.Fields {
		if samples[x.Type] != "" {
			all[x.Name] = samples[x.Type]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := maps.Clone(all)
		values[name] = p
		h.l.open(f.Page)
		if !slices.ContainsFunc(readForms(h.l.tab), func(g form) bool { return g.names() == f.names() }) {
			return // its setting is stored by now
		}
		ctx, cancel := context.WithTimeout(h.l.ctx, step)
		_, err := chromedp.RunResponse(ctx, chromedp.Evaluate[chromedp.Void](f.send(values)))
		cancel()
		if err != nil {
			h.t.Fatalf("%s of %s: %v", name, f.Page, err)
		}
		h.shown++
		if got := h.l.done(); len(got) > 0 {
			h.t.Errorf("attack 276: %s in the field %s of %s: %q", p, name, pathOf(f.Page), got)
		}
	}
}

// forget begins a new browser session.
func (h *hostile) forget() {
	h.t.Helper()
	h.l.forget()
}
