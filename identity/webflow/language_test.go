package webflow_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// TestLanguageOfAPerson: from the sign-in on, pages are in the person's own language, until they choose another one.
func TestLanguageOfAPerson(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) {
		c.Locales = []string{"en", "nl", "de"}
		c.Persons[0].Locale = "nl-BE"
	})
	b := h.Browser()
	language := func(want, when string) {
		t.Helper()
		if got := b.Get("/account").Header().Get("Content-Language"); got != want {
			t.Errorf("the account page is in %q, want %q %s", got, want, when)
		}
	}
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	language("nl", "after the sign-in of a person who prefers it")
	if got := b.Do(http.MethodGet, "/language?to=de&back="+url.QueryEscape("/account/security"), ""); got.Code != http.StatusSeeOther ||
		got.Header().Get("Location") != "/account/security" {
		t.Errorf("GET /language = %d %v, want a redirect back", got.Code, got.Header())
	}
	language("de", "after it was chosen")
	if got := b.Do(http.MethodPost, "/language", ""); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /language = %d, want 405", got.Code)
	}
	other := h.Browser()
	if got := other.Get("/sign-in"); !strings.HasPrefix(got.Header().Get("Content-Language"), "en") {
		t.Errorf("the sign-in page of another browser is in %q, want en", got.Header().Get("Content-Language"))
	}
}
