package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

const fragment = "#/deep/link?tab=2&q=%C3%A9,javascript:alert(1)//host"

// keepsNothing checks that nothing is left of a sign-in in the browser.
func keepsNothing(b *tab, issuer string) {
	b.t.Helper()
	b.open(issuer + "/account")
	if got := eval[string](b, `JSON.stringify(Object.entries(localStorage).concat(Object.entries(sessionStorage)))+document.cookie`); got != "[]" {
		b.t.Errorf("after the sign-in the browser keeps %s", got)
	}
}

// partner is a provider that asks for a click. It writes something after # in the address to which it sends browsers.
type partner struct {
	*httptest.Server

	mu     sync.Mutex // guards asked
	asked  []string   // request targets
	answer url.Values // in place of a code
}

func newPartner(t *testing.T) *partner {
	t.Helper()
	e := new(partner)
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, r.RequestURI)
	switch r.URL.Path {
	case "/authorize":
		q := r.URL.Query()
		answer := url.Values{"state": {q.Get("state")}, "code": {fmt.Sprintf("code-%d", len(e.asked))}}
		if e.answer != nil {
			answer = url.Values{"state": {q.Get("state")}}
			for name, values := range e.answer {
				answer[name] = values
			}
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>Elsewhere</title><p id="saw"></p><a id="on" href="%s?%s#access_token=secret">On</a><script>saw.textContent = "saw:" + location.hash</script>`,
			q.Get("redirect_uri"), strings.ReplaceAll(answer.Encode(), "&", "&amp;"))
	case "/token":
		answerJSON(w, map[string]any{"access_token": fmt.Sprintf("token-%d", len(e.asked)), "token_type": "Bearer", "scope": "identify email"})
	case "/profile":
		answerJSON(w, map[string]any{"id": "77", "username": "eva", "email": "eva@elsewhere.example", "verified": true})
	default:
		http.NotFound(w, r)
	}
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // of a test
}

func (e *partner) block() string {
	return fmt.Sprintf(`
		idp partner discord {
			client_id gatehouse
			client_secret 0123456789012345678901234567890123456789
			authorization_url %[1]s/authorize
			token_url %[1]s/token
			profile_url %[1]s/profile
			name Partner
			map email email
		}
		identity {`, e.URL)
}

// TestFragment: what is after # in the address of a site is still there after every kind of sign-in, and no one else
// gets it.
func TestFragment(t *testing.T) {
	t.Parallel()
	e := newPartner(t)
	s := startEdited(t, "", func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
		return strings.Replace(caddyfile, "\n\t\tidentity {", e.block(), 1)
	})
	target := s.Wiki + "/app?x=1" + fragment
	t.Run("password", func(t *testing.T) {
		b := s.browse(t)
		b.open(target)
		if at := b.location(); !strings.HasPrefix(at, s.Issuer+"/sign-in") || strings.Contains(at, "#") {
			t.Errorf("the sign-in page is at %s", at)
		}
		b.signIn(person, "not the password")
		b.signIn(person, s.Password)
		b.until("location.href === " + quote(target))
		checkSeen(t, b.seen(), "/app?x=1")
		b.open(s.Wiki + "/other#/two")
		if at := b.location(); at != s.Wiki+"/other#/two" {
			t.Errorf("with a session the browser is at %s", at)
		}
		keepsNothing(b, s.Issuer)
	})
	t.Run("two tabs", func(t *testing.T) {
		b := s.browse(t)
		c := b.tab()
		b.open(s.Wiki + "/one#/one")
		c.open(s.Wiki + "/two#/two")
		b.signIn(person, s.Password)
		b.reaches(s.Wiki + "/one#/one")
		c.signIn(person, s.Password)
		c.reaches(s.Wiki + "/two#/two")
		keepsNothing(b, s.Issuer)
	})
	t.Run("without scripts", func(t *testing.T) {
		b := s.browse(t)
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		b.open(target)
		b.signIn(person, s.Password)
		if at, _, _ := strings.Cut(b.location(), "#"); at != s.Wiki+"/app?x=1" {
			t.Errorf("the browser is at %s", at)
		}
	})
	t.Run("provider", func(t *testing.T) {
		b := s.browse(t)
		b.open(target)
		b.click(`a[href*="idp=partner"]`)
		if saw := b.text("#saw"); saw != "saw:" {
			t.Errorf("the page of the provider %s", saw)
		}
		b.click("#on")
		b.until("location.href === " + quote(target))
		keepsNothing(b, s.Issuer)
	})
	t.Run("provider, nothing after #", func(t *testing.T) {
		b := s.browse(t)
		b.open(s.Wiki + "/app?x=1")
		b.click(`a[href*="idp=partner"]`)
		b.click("#on")
		b.reaches(s.Wiki)
		if at := b.location(); strings.Contains(at, "access_token") {
			t.Errorf("the site gets what the provider has written after #: %s", at)
		}
		keepsNothing(b, s.Issuer)
	})
	t.Run("provider that refuses first", func(t *testing.T) {
		b := s.browse(t)
		b.open(s.Wiki + "/app?x=1")
		e.mu.Lock()
		e.answer = url.Values{"error": {"access_denied"}}
		e.mu.Unlock()
		b.click(`a[href*="idp=partner"]`)
		b.click("#on")
		e.mu.Lock()
		e.answer = nil
		e.mu.Unlock()
		b.click("main a.button")
		b.click("#on")
		b.reaches(s.Wiki)
		if at := b.location(); strings.Contains(at, "access_token") {
			t.Errorf("the site gets what the provider has written after #: %s", at)
		}
		keepsNothing(b, s.Issuer)
	})
	t.Run("second factor", func(t *testing.T) {
		s := startEdited(t, "", func(caddyfile string) string {
			caddyfile = strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
			return strings.Replace(caddyfile, "\t\tlogin\n", "\t\tlogin\n\t\tlevel 3\n", 1)
		})
		if status, answer := s.configure(http.MethodPost, "/api/v2/config",
			`{"features":{"google_authenticator_step_up_authentication_enabled":true},`+
				`"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`); status != http.StatusNoContent {
			t.Fatalf("switch on authenticator apps: %d %s", status, answer)
		}
		target := s.Wiki + "/app?x=1" + fragment
		b := s.browse(t)
		b.open(target)
		b.signIn(person, s.Password)
		b.reaches(s.Issuer + "/step-up")
		b.click("main ul.providers a[href*=authenticator]")
		key := b.text("p.secret code")
		s.secret("secret of the app", strings.ReplaceAll(key, " ", ""))
		b.fill("#code", appCode(t, key, 0))
		b.click("main form button:not([type])")
		s.secret("recovery code", b.text("ol.codes li code"))
		b.click("main .buttons a")
		b.until("location.href === " + quote(target))
		keepsNothing(b, s.Issuer)
	})
	t.Run("sign-up", func(t *testing.T) {
		m := newMailServer(t)
		s := startEdited(t, "", func(caddyfile string) string { return mailed(m, caddyfile) }, "TEST_SMTP_PASSWORD="+m.password,
			"SSL_CERT_FILE="+m.certificate)
		s.secret("password of the mail server", m.password)
		if status, answer := s.configure(http.MethodPost, "/api/v2/config",
			`{"features":{"sign_up_enabled":true},"attributes":{"verification":{"email_enabled":true}}}`); status != http.StatusNoContent {
			t.Fatalf("switch on sign-up: %d %s", status, answer)
		}
		password := random(12)
		s.secret("password of the new person", password)
		target := s.Wiki + "/app?x=1" + fragment
		b := s.browse(t)
		b.open(target)
		b.click(`main a[href^="/sign-up"]`)
		b.fill("#email", "nel@example.com")
		b.fill("#password", "short")
		b.click("main form button:not([type])") // refused, and shown again
		b.fill("#password", password)
		b.click("main form button:not([type])")
		b.reaches(s.Issuer + "/sign-up/confirm")
		_, parts := m.next(t)
		code := sixDigits.FindStringSubmatch(parts["text/plain"])
		if code == nil {
			t.Fatalf("the mail has no code: %q", parts["text/plain"])
		}
		s.secret("code of the sign-up", code[1])
		b.fill("#code", code[1])
		b.click("main form button:not([type])")
		b.until("location.href === " + quote(target))
		if got := b.seen(); got.URI != "/app?x=1" || got.User != "nel@example.com" {
			t.Errorf("the site saw %+v, want the new person", got)
		}
		keepsNothing(b, s.Issuer)
	})
	t.Run("another account", func(t *testing.T) {
		s := startEdited(t, "", func(caddyfile string) string {
			return strings.Replace(caddyfile, "\t\tlogin\n", "\t\tlogin\n\t\tgroups nobody\n", 1)
		})
		target := s.Wiki + "/app?x=1" + fragment
		b := s.browse(t)
		b.open(target)
		b.signIn(person, s.Password)
		b.until("location.href === " + quote(target)) // the page of a refusal
		b.click(`a[href*="another-account"]`)
		if !b.has("#password") {
			t.Fatalf("another account leads to %s: %s", b.location(), b.text("main"))
		}
		b.signIn(person, s.Password)
		b.until("location.href === " + quote(target))
	})
	for _, target := range e.asked {
		if strings.Contains(target, "deep") {
			t.Errorf("the provider is asked %s", target)
		}
	}
}
