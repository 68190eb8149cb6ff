package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestLoginElsewhere: instead of our sign-in page, the browser is sent to the configured page. It comes back with the
// flow, and the person signs in.
func TestLoginElsewhere(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	h.Demand = func(r *http.Request) authn.Demand {
		return authn.Demand{MaxAge: -1, Return: r.URL.RequestURI(), Locales: []string{"nl"}, Client: authn.Client{ID: "shop", Name: "The shop"}}
	}
	b := h.Browser()
	if a := b.Get("/next"); a.Code != http.StatusOK || !strings.HasPrefix(a.URL, "/sign-in?flow=") {
		t.Fatalf("without an extension /next leads to %s: %d", a.URL, a.Code)
	}
	u.UIExtension.BaseURL, u.UIExtension.LoginPath = "https://www.example.com/welcome/", "/login?theme=dark"
	if a := b.Get("/next"); a.Code != http.StatusOK {
		t.Errorf("without enable_login_redirect /next = %d %s", a.Code, a.Header().Get("Location"))
	}
	u.UIExtension.EnableLoginRedirect = true
	sent := func(b *identitytest.Browser, target string) *url.URL {
		t.Helper()
		for range 10 {
			a := b.Do(http.MethodGet, target, "")
			if target = a.Header().Get("Location"); !strings.HasPrefix(target, "/") {
				to, err := url.Parse(target)
				if a.Code != http.StatusSeeOther || err != nil || to.Host == "" {
					t.Fatalf("%s = %d, Location %q, want a redirect elsewhere", a.URL, a.Code, target)
				}
				return to
			}
		}
		t.Fatalf("%s leads in circles", target)
		return nil
	}
	b = h.Browser()
	to := sent(b, "/next")
	q := to.Query()
	if to.Scheme+"://"+to.Host+to.Path != "https://www.example.com/welcome/login" || q.Get("theme") != "dark" ||
		q.Get("client_id") != "shop" || q.Get("language") != "nl" || len(q) != 4 {
		t.Errorf("the browser is sent to %s", to)
	}
	back, ok := strings.CutPrefix(q.Get("return"), identitytest.Issuer)
	if !ok {
		t.Fatalf("return is %q, want an address of the issuer", q.Get("return"))
	}
	form := b.Get(back)
	if form.Code != http.StatusOK || !strings.Contains(form.Body.String(), `type="password"`) {
		t.Fatalf("GET %s = %d, want the sign-in page", back, form.Code)
	}
	if a := b.Post(form, "username", identitytest.Demo, "password", "wrong"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password = %d, want the page again", a.Code)
	}
	if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther &&
		!strings.Contains(a.Body.String(), "signed in as") {
		t.Errorf("the right password = %d %s", a.Code, a.Body)
	}
	if !b.IsSignedIn() {
		t.Error("the person is not signed in")
	}
	if stranger := h.Browser().Get(back); stranger.Code != http.StatusForbidden {
		t.Errorf("the address to go on to in another browser = %d, want 403", stranger.Code)
	}
	t.Run("attack 281: nothing of a request says where a person is sent", func(t *testing.T) {
		for _, target := range []string{
			"/sign-in?return=https://evil.example", "/sign-in?base_url=https://evil.example",
			"/sign-in?redirect=https://evil.example", "/sign-in?login_path=//evil.example",
		} {
			if to := sent(h.Browser(), target); to.Host != "www.example.com" || strings.Contains(to.String(), "evil") {
				t.Errorf("GET %s leads to %s", target, to)
			}
		}
	})
	u.UIExtension.BaseURL, u.UIExtension.LoginPath = identitytest.Issuer, "/sign-in"
	if a := h.Browser().Get("/next"); a.Code != http.StatusOK {
		t.Errorf("with our own page as the extension /next = %d %s, want the sign-in page", a.Code, a.Header().Get("Location"))
	}
	u.UIExtension.LoginPath = "/hello"
	if to := sent(h.Browser(), "/next"); to.Path != "/hello" {
		t.Errorf("a page beside ours at the issuer: the browser is sent to %s", to)
	}
}
