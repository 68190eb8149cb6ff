package settings_test

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestOrganisationOnPages: what is configured of an organisation is on the pages of its applications, at once, and on
// no others.
func TestOrganisationOnPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pages, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Random: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	pages.SetOrganisations(w.service.PageOrganisations)
	shows := func(template, client string) string {
		t.Helper()
		v := web.View{Template: template, Client: authn.Client{ID: client, Name: "The shop"}, Data: web.SignIn{Action: "/sign-in"}}
		if template == "consent" {
			v.Data = web.Consent{Action: "/oauth/consent", Owner: "shop.example.com"}
		}
		rec := httptest.NewRecorder()
		pages.Render(rec, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil), v)
		if rec.Code != http.StatusOK {
			t.Fatalf("%s = %d", template, rec.Code)
		}
		return rec.Body.String()
	}
	post := func(members string) {
		t.Helper()
		w.must(204, "POST", "/api/v2/config",
			`{"organisations":[{"id":"acme","name":"Acme","service_providers":{"shop":{"name":"Shop"}}`+members+`}]}`)
	}
	before := shows("sign_in", "shop")
	for _, tt := range []struct{ members, template, want string }{
		{"", "consent", "It belongs to Acme."},
		{`,"site_url":"https://acme.example/"`, "consent", `<a href="https://acme.example/"`},
		{`,"support_url":"https://acme.example/help"`, "sign_in", `href="https://acme.example/help"`},
		{`,"support_email":"help@acme.example"`, "sign_in", `href="mailto:help@acme.example"`},
		{`,"logo_square_base64":"` + pixel + `"`, "sign_in", `<img class="logo" src="/assets/organisation`},
		{`,"logo_landscape_base64":"` + pixel + `"`, "consent", `<img class="logo" src="/assets/organisation`},
		{`,"message_to_assist_user_during_migration_period_html":"<p>We are <b>moving</b>"`, "sign_in", "<p>We are <b>moving</b></p>"},
	} {
		post(tt.members)
		if body := shows(tt.template, "shop"); !strings.Contains(body, tt.want) {
			t.Errorf("with %s the page %s has no %s:\n%s", tt.members, tt.template, tt.want, body)
		}
		if body := shows(tt.template, "other"); strings.Contains(body, tt.want) {
			t.Errorf("with %s the page %s of another client has %s", tt.members, tt.template, tt.want)
		}
	}
	w.must(204, "POST", "/api/v2/config", `{"organisations":[]}`)
	if after := shows("sign_in", "shop"); after != before {
		t.Errorf("without organisations the sign-in page is\n%s\nwant\n%s", after, before)
	}
	t.Run("attack 277: markup in the message of an organisation", func(t *testing.T) {
		post(`,"message_to_assist_user_during_migration_period_html":"<p onclick=x>a<script>alert(1)</script><form action=//evil.example><input></form><a href='javascript:x'>b</a>"`)
		if got := w.units(w.service).Organisations[0].MigrationMessageHTML; got != "<p>a</p><a>b</a>" && got != "<p>a<a>b</a></p>" {
			t.Errorf("the message is stored as %q, want its harmless part", got)
		}
		if body := shows("sign_in", "shop"); strings.Contains(body, "alert") || strings.Contains(body, "evil") {
			t.Errorf("the sign-in page has markup of the message:\n%s", body)
		}
	})
	t.Run("attack 276, 286: addresses and logos of an organisation", func(t *testing.T) {
		for _, members := range []string{
			`"support_url":"javascript:alert(1)"`, `"site_url":"data:text/html,x"`, `"landing_page_url":"//evil.example"`,
			`"account_link_url":"vbscript:x"`, `"support_email":"a@b\r\nBcc: c@d"`,
			`"logo_square_base64":"PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+"`, `"logo_landscape_base64":"` + bomb + `"`,
			`"logo_square_base64":"` + strings.Repeat("A", 20<<10*4) + `"`,
		} {
			if a := w.call("POST", "/api/v2/config", `{"organisations":[{"id":"x",`+members+`}]}`); a.status != 400 && a.status != 413 {
				t.Errorf("POST of %.60s = %d, want 400", members, a.status)
			}
		}
	})
}
