package caddymodule_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestQRGuide runs the configurations of docs/qr-sign-in.md: by the one of the Caddyfile a phone signs in another
// browser, and the settings are taken.
func TestQRGuide(t *testing.T) {
	raw, err := os.ReadFile("../docs/qr-sign-in.md")
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Configured(t, "")
	fence := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindSubmatch(raw)
	if fence == nil || !strings.Contains(string(fence[1]), "phone_sign_in on") {
		t.Fatal("the guide has no Caddyfile with phone_sign_in")
	}
	s.InIdentity += "phone_sign_in on\n"
	s.MustLoad()
	b, phone := servertest.NewBrowser(t), servertest.NewBrowser(t)
	phone.SignIn(s.Issuer() + "/account")
	_, page := b.Open(s.Issuer() + "/sign-in")
	link := regexp.MustCompile(`href="(/sign-in/phone[^"]+)"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("the sign-in page does not offer a code:\n%s", page)
	}
	res, page := b.Open(s.Issuer() + html.UnescapeString(link[1]))
	waits := res.Request.URL.String()
	code, number := regexp.MustCompile(`<code>([^<]+)</code>`).FindStringSubmatch(page),
		regexp.MustCompile(`<p class="number"><b>([0-9]{2})</b>`).FindStringSubmatch(page)
	if code == nil || number == nil {
		t.Fatalf("%s shows no code:\n%s", waits, page)
	}
	res, page = phone.Open(html.UnescapeString(code[1]))
	main := page[strings.Index(page, "<main"):]
	phone.Submit(res, main, url.Values{"number": {number[1]}})
	if res, page = b.Open(waits); res.Request.URL.Path != "/account" {
		t.Errorf("the browser that waited is at %s:\n%s", res.Request.URL, page)
	}

	for _, m := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(raw, -1) {
		var settings map[string]any
		if err := json.Unmarshal(m[1], &settings); err != nil {
			t.Errorf("%s: %v", m[1], err)
			continue
		}
		if settings["features"] != nil { // not an answer
			s.MustCall("POST", "/api/v2/config", settings, http.StatusNoContent)
		}
	}
	if page := s.SignInPage(); !strings.Contains(page, "The Acme app") {
		t.Errorf("the sign-in page with both settings:\n%s", page)
	}
}
