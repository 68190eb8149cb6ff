package e2e

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mark draws a picture: a disc on a transparent ground.
func mark(t *testing.T, side int, fill color.Color) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			if dx, dy := 2*x-side, 2*y-side; dx*dx+dy*dy < side*side {
				img.Set(x, y, fill)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBranding: a person sees the brand of the pages, and the application with its owner, changes the language on the
// way, and arrives.
func TestBranding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]color.Color{
		"brand.png": color.NRGBA{0xc2, 0x41, 0x0c, 255},
		"shop.png":  color.NRGBA{0x16, 0x65, 0x34, 255},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), mark(t, 160, c), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, s := openShopEdited(t, func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "identity {",
			"identity {\n\t\t\tlocales en nl de fr\n\t\t\tbrand {\n\t\t\t\tname Albers\n\t\t\t\tlogo "+filepath.Join(dir, "brand.png")+
				"\n\t\t\t\tcolor ffd43b\n\t\t\t\thelp https://help.example.com/\n\t\t\t}", 1)
		caddyfile = strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
		return strings.Replace(caddyfile, "\t\t\tname \"The shop\"", "\t\t\tname \"The shop\"\n\t\t\tlogo "+filepath.Join(dir, "shop.png"), 1)
	})
	organisation := `{"organisations":[{"id":"acme","name":"Acme Trading","site_url":"https://acme.example/","support_url":"https://acme.example/help",` +
		`"message_to_assist_user_during_migration_period_html":"<p>We have <b>moved</b>. <a href=\"https://acme.example/news\">What is new</a><script>alert(1)</script>",` +
		`"logo_square_base64":"` + base64.StdEncoding.EncodeToString(mark(t, 64, color.Black)) +
		`","service_providers":{"shop":{"name":"Shop"}}}]}`
	if status, text := s.configure("POST", "/api/v2/config", organisation); status != http.StatusNoContent {
		t.Fatalf("POST of an organisation = %d %s", status, text)
	}
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	b := s.browse(t)
	shows := func(when, script string) {
		t.Helper()
		if !eval[bool](b, script) {
			t.Errorf("%s: not %s; the page is\n%s", when, script, eval[string](b, "document.documentElement.outerHTML"))
		}
	}
	b.open(p.address + "/")
	shows("sign-in", `[...document.images].length === 2 && [...document.images].every(i => i.complete && i.naturalWidth > 0)`)
	shows("sign-in", `document.querySelector('.notice.info a').href === 'https://acme.example/news' && !document.querySelector('.notice script')`)
	shows("sign-in", `document.querySelector('footer .help').href === 'https://acme.example/help'`)
	inspect(b, "branding-sign-in", string(axe))
	flow := b.location()
	b.click("footer a[hreflang=nl]")
	if got := b.location(); got != flow {
		t.Errorf("after a language was chosen the browser is at %s, want %s", got, flow)
	}
	shows("sign-in in Dutch", `document.documentElement.lang === 'nl' && document.querySelector('h1').textContent === 'Inloggen'`)
	b.signIn(person, "not the password")
	shows("a wrong password in Dutch", `document.documentElement.lang === 'nl' && !!document.querySelector('[role=alert]')`)
	b.click("footer a[hreflang=fr]")
	shows("sign-in in French", `document.documentElement.lang === 'fr'`)
	b.signIn(person, s.Password)
	shows("consent in French", `document.documentElement.lang === 'fr' && document.body.textContent.includes('Acme Trading')`)
	inspect(b, "branding-consent", string(axe))
	b.click("button[value=allow]")
	b.reaches(p.address + "/callback")
	b.open(s.Issuer + "/account")
	shows("the account page in French",
		`document.documentElement.lang === 'fr' && document.querySelector('footer .help').href === 'https://help.example.com/'`)
	b.open(s.Issuer + "/nowhere")
	shows("an error in French", `document.documentElement.lang === 'fr'`)
}
