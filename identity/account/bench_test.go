package account_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// BenchmarkProfile measures the busiest pages of an account: showing the profile, and adding and removing a telephone
// number.
func BenchmarkProfile(b *testing.B) {
	h := identitytest.New(b, func(c *identity.Config) { c.Locales = []string{"en", "nl", "de", "fr"} })
	br := h.Browser()
	br.SignIn(identitytest.Demo, identitytest.DemoPassword)
	page := br.Get("/account/profile?edit=details")
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if a := br.Do(http.MethodGet, "/account/profile", ""); a.Code != http.StatusOK {
				b.Fatal(a.Code)
			}
		}
	})
	b.Run("contact", func(b *testing.B) {
		form := func(do string) string {
			return url.Values{"csrf": {page.CSRF()}, "kind": {"phone"}, "value": {"+31612345678"}, "do": {do}}.Encode()
		}
		add, remove := form("add"), form("remove")
		b.ReportAllocs()
		for b.Loop() {
			for _, body := range []string{add, remove} {
				if a := br.Do(http.MethodPost, "/account/profile/contact", body); a.Code != http.StatusSeeOther {
					b.Fatal(a.Code, a.Body)
				}
			}
		}
	})
}
