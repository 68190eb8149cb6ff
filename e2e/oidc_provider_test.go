package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// oidcProvider is a running oidc-provider of npm: an independent OpenID provider.
type oidcProvider struct {
	t      *testing.T
	URL    string
	port   int
	secret string
}

// reserveOIDCProvider chooses its address. It is served later, because it must know the address of the server under
// test, which starts without its providers.
func reserveOIDCProvider(t *testing.T) *oidcProvider {
	t.Helper()
	o := &oidcProvider{t: t, port: freePorts(t, 1)[0], secret: random(32)}
	o.URL = fmt.Sprintf("http://localhost:%d", o.port)
	return o
}

// serve starts it until the end of the test.
func (o *oidcProvider) serve(s *server) {
	t := o.t
	t.Helper()
	s.secret("secret at the provider", o.secret)
	out := new(lockedBuffer)
	cmd := exec.Command("node", "node/oidc-provider.mjs")
	cmd.Env = environ(t.TempDir(), fmt.Sprintf("PORT=%d", o.port), "GATEHOUSE="+s.Issuer, "SECRET="+o.secret)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("node: %v: make install", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-gone
		if t.Failed() {
			t.Logf("the provider said:\n%s", tail([]byte(out.String()), 3000))
		}
	})
	untilItAnswers(t, "oidc-provider", o.URL+"/.well-known/openid-configuration", gone, out)
	o.warmUp()
}

// warmUp sends an assertion that is refused once its key has been fetched. For the first one Node loads what it fetches
// and verifies with, which takes longer on a busy machine than a server waits for its provider.
func (o *oidcProvider) warmUp() {
	o.t.Helper()
	claims := fmt.Sprintf(`{"iss":"key","sub":"key","aud":%q,"jti":"warm-up","exp":%d}`, o.URL, time.Now().Add(time.Minute).Unix())
	var parts []string
	for _, part := range []string{`{"alg":"ES256"}`, claims, strings.Repeat("x", 64)} {
		parts = append(parts, base64.RawURLEncoding.EncodeToString([]byte(part)))
	}
	resp, err := http.PostForm(o.URL+"/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"key"}, "client_assertion": {strings.Join(parts, ".")},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	})
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		o.t.Fatalf("an assertion that anybody could have made: %s", resp.Status)
	}
}

// untilItAnswers waits until a program that was started answers 200 at an address.
func untilItAnswers(t *testing.T, program, address string, gone chan error, out *lockedBuffer) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		resp, err := http.Get(address) //nolint:gosec // of the tests
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("%s ended: %v: make install\n%s", program, err, out.String())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer: %v\n%s", program, err, out.String())
		}
	}
}

// lockedBuffer is the output of a process, which can be read while it runs.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// oidcWays are the ways in which the server talks to it, by the id of the provider, which is also our client id there.
var oidcWays = []struct{ id, name, options string }{
	{"basic", "client_secret_basic", "client_secret %s\nname \"The corporation\"\nlevel 2\ncouple email"},
	{"post", "client_secret_post", "client_secret %s\nauth_method post\ncouple email"},
	{"key", "private_key_jwt", "auth_method private_key_jwt\ncouple email"},
	{"sealed", "encrypted", "auth_method private_key_jwt\nid_token_encryption_required\nuser_info_encryption_required\ncouple email"},
}

// with adds the providers to the configuration.
func (o *oidcProvider) with(caddyfile string) string {
	var blocks strings.Builder
	ids := "identity"
	for _, w := range oidcWays {
		ids += " " + w.id
		options := strings.ReplaceAll(strings.ReplaceAll(w.options, "%s", o.secret), "\n", "\n\t\t\t")
		fmt.Fprintf(&blocks, "\t\tidp %s oidc {\n\t\t\tissuer %s\n\t\t\tclient_id %s\n\t\t\tscopes openid profile email groups offline_access\n"+
			"\t\t\tmap email email\n\t\t\tmap name displayName\n\t\t\tmap groups teams\n\t\t\t%s\n\t\t}\n", w.id, o.URL, w.id, options)
	}
	caddyfile = strings.Replace(caddyfile, "\t\tapi_client ops {", blocks.String()+"\t\tapi_client ops {", 1)
	return strings.Replace(caddyfile, "\t\t\tname \"The shop\"", "\t\t\tname \"The shop\"\n\t\t\tconsent off\n\t\t\tidps "+ids, 1)
}

// signIn fills the provider's sign-in page.
func (o *oidcProvider) signIn(b *tab, username string) int64 {
	b.t.Helper()
	if !strings.HasPrefix(b.location(), o.URL) || !b.has("input[name=login]") {
		b.t.Fatalf("the browser is at %s, want the sign-in page of %s: %s", b.location(), o.URL, b.text("body"))
	}
	b.fill("input[name=login]", username)
	b.fill("input[name=password]", "any")
	return b.click("button[type=submit]")
}

// TestOIDCProvider signs in at oidc-provider with each of our clients there, up to an upstream behind protect. The
// person's claims are at its userinfo endpoint only.
func TestOIDCProvider(t *testing.T) {
	t.Parallel()
	o := reserveOIDCProvider(t)
	p, s := openShopEdited(t, o.with)
	o.serve(s)
	b := s.browse(t)
	for _, w := range oidcWays {
		t.Run(w.name, func(t *testing.T) {
			b := b.in(t)
			b.forget()
			b.open(s.Wiki + "/deep?x=1")
			b.choose(w.id)
			if status := o.signIn(b, "alice"); status != http.StatusOK {
				t.Fatalf("status %d at %s: %s", status, b.location(), b.text("body"))
			}
			if got := b.location(); got != s.Wiki+"/deep?x=1" {
				t.Fatalf("landed at %s, which says %q", got, b.text("body"))
			}
			if got := b.seen(); got.Email != "alice@example.org" || got.Name != "Alice Example" {
				t.Errorf("the upstream saw %+v", got)
			}
		})
	}
	t.Run("straight to the provider", func(t *testing.T) { oidcStraight(b.in(t), o, p) })
	t.Run("cancelled there", func(t *testing.T) { oidcCancelled(b.in(t), o, p) })
	t.Run("fresh user details", func(t *testing.T) { oidcRefreshed(b.in(t), o, p) })
	t.Run("sign-out here", func(t *testing.T) { oidcSignOutHere(b.in(t), o) })
	t.Run("sign-out there", func(t *testing.T) { oidcSignOutThere(b.in(t), o) })
}

// oidcStraight names the provider in the authorization request, in both ways.
func oidcStraight(b *tab, o *oidcProvider, p *shop) {
	t := b.t
	for _, query := range []string{"idp=basic", "external_idp=urn:com:service:saml:idp:basic"} {
		b.forget()
		b.open(p.address + "/?" + query)
		o.signIn(b, "alice")
		if got := b.text("h1"); got != "Signed in" {
			t.Fatalf("%s: the application says %q: %s", query, got, b.text("#text"))
		}
	}
	b.open(p.address + "/?idp=basic&prompt=none")
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("prompt=none with a session of the provider says %q: %s", got, b.text("#text"))
	}
	b.open(p.address + "/?idp=basic&prompt=login")
	if !b.has("input[name=login]") {
		t.Errorf("prompt=login did not make the provider ask again: the browser is at %s", b.location())
	}
	b.forget()
	b.open(p.address + "/?idp=basic&prompt=none")
	if got := b.text("#text"); !strings.HasPrefix(got, "login_required") {
		t.Errorf("prompt=none without a session says %q, want login_required", got)
	}
}

// oidcCancelled leaves the provider's page without signing in: the application gets the error.
func oidcCancelled(b *tab, o *oidcProvider, p *shop) {
	b.forget()
	b.open(p.address + "/?idp=post")
	if !strings.HasPrefix(b.location(), o.URL) {
		b.t.Fatalf("the browser is at %s", b.location())
	}
	b.click(`a[href*="/abort"]`)
	if got := b.text("#text"); !strings.HasPrefix(got, "access_denied") {
		b.t.Errorf("the application was told %q at %s, want access_denied", got, b.location())
	}
}

// oidcRefreshed requests user details again after the person has changed their name at the provider.
func oidcRefreshed(b *tab, o *oidcProvider, p *shop) {
	t := b.t
	b.forget()
	b.open(p.address + "/?idp=basic")
	o.signIn(b, "dora")
	if got := b.text("h1"); got != "Signed in" {
		t.Fatalf("the application says %q: %s", got, b.text("#text"))
	}
	details := func(fresh string) map[string]any {
		t.Helper()
		resp := p.s.form("/oauth/api/v2/token/introspect", "ops", p.s.OpsSecret,
			url.Values{"token": {p.token.AccessToken}, "refresh_user_details": {fresh}})
		return body[struct {
			Details map[string]any `json:"user_details"`
		}](t, resp).Details
	}
	if got := fmt.Sprint(details("false")["displayName"]); !strings.Contains(got, "Dora Example") {
		t.Errorf("displayName = %s, want Dora Example", got)
	}
	resp, err := http.Post(o.URL+"/test/rename?"+url.Values{"name": {"Dora Married"}}.Encode(), "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := fmt.Sprint(details("false")["displayName"]); !strings.Contains(got, "Dora Example") {
		t.Errorf("displayName without a refresh = %s, want what is known", got)
	}
	if got := fmt.Sprint(details("true")["displayName"]); !strings.Contains(got, "Dora Married") {
		t.Errorf("displayName after a refresh = %s, want Dora Married", got)
	}
	if got := fmt.Sprint(details("false")["displayName"]); !strings.Contains(got, "Dora Married") {
		t.Errorf("displayName afterwards = %s, want what is known now", got)
	}
}

// oidcSignOutHere signs out at Gatehouse: the provider signs the person out too, after its own confirmation page.
func oidcSignOutHere(b *tab, o *oidcProvider) {
	t := b.t
	b.forget()
	b.open(b.s.Wiki + "/")
	b.choose("basic")
	o.signIn(b, "alice")
	b.open(b.s.Issuer + "/sign-out")
	b.click("main form button:not([type])")
	b.reaches(o.URL + "/session/end") // through one of our pages, because form-action does not allow every redirect
	b.click("button[value=yes]")
	b.reaches(b.s.Issuer)
	b.open(b.s.Wiki + "/")
	b.choose("basic")
	if !b.has("input[name=login]") {
		t.Errorf("the provider has not signed out as well: the browser is at %s", b.location())
	}
}

// oidcSignOutThere signs out at the provider, which notifies us through its back channel.
func oidcSignOutThere(b *tab, o *oidcProvider) {
	t := b.t
	b.forget()
	b.open(b.s.Wiki + "/")
	b.choose("key")
	o.signIn(b, "alice")
	if got := b.seen().Email; got != "alice@example.org" {
		t.Fatalf("the upstream saw %q", got)
	}
	b.open(o.URL + "/session/end")
	b.click("button[value=yes]")
	b.open(b.s.Wiki + "/")
	if !strings.HasPrefix(b.location(), b.s.Issuer) {
		t.Errorf("signed out at the provider, and still at %s", b.location())
	}
}

// TestOIDCProviderDown: the sign-in page and passwords work while a provider is down, and its button leads back.
func TestOIDCProviderDown(t *testing.T) {
	t.Parallel()
	o := reserveOIDCProvider(t)
	s := startEdited(t, "", o.with)
	b := s.browse(t)
	b.open(s.Wiki + "/")
	begin := time.Now()
	b.click(`a.provider[href*="basic"]`)
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("the page came after %s, want at most 5 s", took)
	}
	if got := b.location(); !strings.HasPrefix(got, s.Issuer) {
		t.Fatalf("the browser is at %s", got)
	}
	links := eval[[]string](b, `[...document.querySelectorAll('main a')].map(a => a.getAttribute('href'))`)
	if !slices.ContainsFunc(links, func(l string) bool { return strings.Contains(l, "choose=1") }) {
		t.Fatalf("the page has no way back: %q, %s", links, b.text("body"))
	}
	b.click(`main a[href*="choose=1"]`)
	b.signIn(person, s.Password)
	if got := b.location(); got != s.Wiki+"/" {
		t.Errorf("a password leads to %s", got)
	}
}
