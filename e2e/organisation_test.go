package e2e

import (
	"encoding/base64"
	"image/color"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOrganisation: a private organisation is invisible before the sign-in. After it, a person sees the owner of an
// application, opens the application's own site, and revokes its access, about which the organisation gets a notice.
func TestOrganisation(t *testing.T) {
	t.Parallel()
	referers := make(chan string, 10)
	landing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begin" {
			referers <- r.Referer()
		}
		page(w, "Welcome", "The shop begins here.")
	}))
	t.Cleanup(landing.Close)
	m := newMailServer(t)
	p, s := openShopEdited(t, func(c string) string { return mailed(m, c) }, "TEST_SMTP_PASSWORD="+m.password, "SSL_CERT_FILE="+m.certificate)
	s.secret("password of the mail server", m.password)
	const name = "Koninklijke Nederlandse Vereniging van Levensmiddelengroothandelaren"
	organisation := `{"organisations":[{"id":"acme","name":"` + name +
		`","site_url":"https://acme.example/","support_url":"https://acme.example/help","support_email":"help@acme.example",` +
		`"landing_page_url":"` + landing.URL +
		`/begin","account_link_url":"https://acme.example/my/account","preferred_language":"nl_NL","is_private":true,` +
		`"notify_when_user_does_unlink_account":true,"message_to_assist_user_during_migration_period_html":"<p>Acme has moved.</p>",` +
		`"logo_square_base64":"` + base64.StdEncoding.EncodeToString(mark(t, 64, color.Black)) +
		`","service_providers":{"shop":{"name":"Shop"}}}]}`
	if status, text := s.configure(http.MethodPost, "/api/v2/config", organisation); status != http.StatusNoContent {
		t.Fatalf("POST of an organisation = %d %s", status, text)
	}
	languageOfStrangers(t, p, s)

	b := s.browse(t)
	see := look(b, "organisation-")
	b.open(p.address + "/")
	if shown := eval[bool](b, `document.documentElement.outerHTML.toLowerCase().includes('acme') || document.body.textContent.includes('Koninklijke') || document.images.length > 0`); shown {
		t.Errorf("the sign-in page shows a private organisation:\n%s", eval[string](b, "document.documentElement.outerHTML"))
	}
	see("sign-in")
	b.signIn(person, s.Password)
	b.until(`document.body.textContent.includes('Koninklijke') && document.images.length === 1`)
	see("consent")
	b.click("button[value=allow]")
	b.reaches(p.address + "/callback")
	p.mu.Lock()
	subject := p.subject
	p.mu.Unlock()

	b.open(s.Issuer + "/account/applications")
	see("applications")
	for _, language := range []string{"nl", "de", "fr"} {
		b.click("footer a[hreflang=" + language + "]")
		b.until(`document.documentElement.lang === ` + quote(language))
		look(b, language+"-organisation-")("applications")
	}
	b.click("footer a[hreflang=en]")
	b.until(`[...document.querySelectorAll('.away a')].map(a => a.textContent).join() === 'Open The shop,Your account at ` + name + `'`)
	b.until(`[...document.querySelectorAll('.away a')].every(a => a.rel === 'noopener noreferrer' && a.getBoundingClientRect().height >= 24)`)
	b.do(chromedp.Click(chromedp.CSS(".away a")))
	b.reaches(landing.URL + "/begin")
	if got := <-referers; got != "" {
		t.Errorf("the browser sends the application's own site the referrer %q", got)
	}

	b.open(s.Issuer + "/account/applications")
	b.click("ul.rows form button")
	see("applications-none")
	header, parts := m.next(t)
	if header.Get("To") != "<help@acme.example>" || header.Get("Subject") != "Een account is losgekoppeld van The shop" ||
		!strings.Contains(parts["text/plain"], subject) ||
		strings.Contains(parts["text/plain"], person) || strings.Contains(parts["text/html"], person) {
		t.Errorf("mail to the organisation = %v\n%s", header, parts["text/plain"])
	}
	if status, text := s.configure(http.MethodPost, "/api/v2/config/organisations/acme/service-providers/shop",
		`{"required_authentication_level":4}`); status != http.StatusNoContent {
		t.Fatalf("POST of a service provider = %d %s", status, text)
	}
	b.open(p.address + "/")
	b.until(`document.body.textContent.includes('unmet_authentication_requirements')`)
}

// languageOfStrangers: the sign-in page is in the organisation's language for a browser that requests no available
// language.
func languageOfStrangers(t *testing.T, p *shop, s *server) {
	t.Helper()
	for asked, want := range map[string]string{"sv": "nl", "sv, de;q=0.5": "de"} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := s.client()
		client.Jar, client.CheckRedirect = jar, nil
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Language", asked)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Language"); resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/sign-in" || got != want {
			t.Errorf("a browser that requests %q sees %d %s in %q, want the sign-in page in %q", asked, resp.StatusCode,
				resp.Request.URL.Path, got, want)
		}
	}
}
