package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"image/png"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var newPictures = flag.Bool("pictures", false, "rewrite the pictures in docs/images")

// TestPictures runs the Caddyfile of the README and takes the pictures of the README: the sign-in page of its wiki and
// the account page. With -pictures they are written to docs/images; without, those there must be such pictures.
func TestPictures(t *testing.T) {
	t.Parallel()
	g := &guide{server: &server{t: t, dir: t.TempDir(), secrets: map[string]string{}}, blocks: blocksOf(read(t, "../README.md"))}
	ports := freePorts(t, 3)
	g.Admin, g.Issuer, g.Wiki, g.Password = fmt.Sprintf("localhost:%d", ports[0]), "https://auth.example.com",
		"https://wiki.example.com", random(12)
	g.secret("password", g.Password)
	options := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\tgrace_period 100ms\n\tskip_install_trust\n\tlocal_certs\n\tdefault_bind 127.0.0.1\n\thttps_port %d\n\thttp_port %d\n", g.Admin, ports[1], ports[2])
	g.write(strings.Replace(strings.Replace(g.first("caddyfile"), "{\n", options, 1), "localhost:9001", echo(t), 1))
	g.run(filepath.Join(g.dir, "Caddyfile"), g.dir, "ADA_PASSWORD="+g.Password)
	here := fmt.Sprintf("127.0.0.1:%d", ports[1])
	g.until(t, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, here)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // Caddy's own authority, made a moment ago
	}}, g.Issuer+"/healthz")

	b := g.browseWith(t, chromedp.Flag("host-resolver-rules", "MAP *.example.com "+here), chromedp.Flag("ignore-certificate-errors", true))
	call(b, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 700, DeviceScaleFactor: 2, Mobile: true})
	b.open(g.Wiki + "/")
	if !b.has("#password") {
		t.Fatalf("the wiki leads to %s", b.location())
	}
	b.picture("sign-in")
	b.signIn("ada@example.com", g.Password)
	b.reaches(g.Wiki + "/")
	b.open(g.Issuer + "/account")
	b.reaches(g.Issuer + "/account")
	b.picture("account")
}

// TestPicturesOfConsole takes the pictures of docs/console.md, in the same way.
func TestPicturesOfConsole(t *testing.T) {
	t.Parallel()
	j := openJourneys(t, 1)
	w := &walk{tab: j.browse(t), cast: j.casts[0], j: j, script: true}
	w.screen(1280, 800, "light")
	w.open(j.Issuer + "/admin")
	w.signIn(person, j.Password)
	w.until(`document.querySelectorAll("#denials ~ table tbody tr, [aria-labelledby=denials] tbody tr").length > 0 || (setTimeout(() => location.reload(), 500), false)`)
	w.picture("console-overview")
	w.person(colleague)
	w.picture("console-person")
	w.press("Refusals")
	w.row(colleague)
	w.picture("console-refusal")
	w.press("Sites")
	w.picture("console-sites")
	w.open(j.Wiki + "/plans") // which the shadow rules of the wiki would refuse
	w.open(j.Issuer + "/admin/sites")
	w.row(strings.TrimPrefix(j.Wiki, "http://"))
	w.until(`[...document.querySelectorAll("[aria-labelledby=shadow] dd")].some(e => e.innerText.trim() === "1") || (setTimeout(() => location.reload(), 500), false)`)
	w.looks("console-site")
	w.show("#shadow")
	w.picture("console-site")
	w.press("Run doctor")
	w.click("main form button:not([type])")
	w.looks("console-doctor")
	if status, answer := j.configure(http.MethodPost, "/api/v2/config",
		`{"policies":{"notes":{"allow":[{"name":"staff","need":{"groups":["staff"]}}]},"office":{"deny":[{"name":"archive","match":[{"path":["/archive/*"]}]}],"allow":[{"name":"reports","need":{"groups":["staff"]}}]}},`+
			`"login_methods":{"login_methods":[{"id":"partner","name":"Partner","type":"SAML","enabled":true,"saml_attributes":{"idp_metadata":`+
			quote(j.partner)+`}}]}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	w.open(j.Issuer + "/admin/policies/office")
	w.looks("console-policy")
	w.press("Test")
	w.fill("[name=cases]", "site https://wiki.example.com\nperson eve {\n  groups guests\n}\n\nallow   "+person+
		" GET /reports/1\ndeny    eve GET /reports/1\nsign-in -   GET /reports/1\n?       eve GET /archive/1\n")
	w.click("main form button:not([type])")
	w.looks("console-policy-test")
	w.show("#tested")
	w.picture("console-policy-test")
	w.open(j.Issuer + "/admin/providers/partner")
	w.until(`[...document.querySelectorAll("[aria-labelledby=keys] tbody tr")].length > 2 || (setTimeout(() => location.reload(), 500), false)`)
	w.looks("console-provider")
	w.picture("console-provider")
	for _, path := range []string{"", "/keys"} {
		w.open(j.Issuer + "/admin" + path)
		w.looks("console" + strings.ReplaceAll(path, "/", "-"))
	}
	w.open(j.Issuer + "/admin/applications/blog")
	w.picture("console-application")
}

// show scrolls to a part of the page.
func (b *tab) show(selector string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(document.querySelector(%s).scrollIntoView(), true)`, quote(selector)))
}

// looks leaves pictures of the page in artifacts with -shots, on two sizes and in both schemes.
func (b *tab) looks(name string) {
	b.t.Helper()
	if !*shots {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			b.screen(width, 800, scheme)
			b.shot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
	b.screen(1280, 800, "light")
}

// picture takes a picture of what the window shows, or holds the one in docs/images against its limits.
func (b *tab) picture(name string) {
	b.t.Helper()
	file := filepath.Join("..", "docs", "images", name+".png")
	taken := get(b, chromedp.CaptureScreenshot())
	if *newPictures {
		if err := os.WriteFile(file, taken, 0o644); err != nil { //nolint:gosec // a document
			b.t.Fatal(err)
		}
	}
	kept := []byte(read(b.t, file))
	now, err := png.DecodeConfig(bytes.NewReader(taken))
	if err != nil {
		b.t.Fatal(err)
	}
	then, err := png.DecodeConfig(bytes.NewReader(kept))
	if err != nil || then.Width != now.Width || then.Height != now.Height || len(kept) > 150<<10 {
		b.t.Errorf("%s: %dx%d, %d bytes, %v; want %dx%d in at most 150 KB: go test -run TestPictures -pictures", file, then.Width, then.Height,
			len(kept), err, now.Width, now.Height)
	}
}
