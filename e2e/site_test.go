//go:build site

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// TestSite looks at the documentation site that make docs has built: its search finds words, its pages fit on a phone
// in the dark, and no request leaves it.
func TestSite(t *testing.T) {
	t.Parallel()
	const dist = "../site/dist"
	if _, err := os.Stat(dist + "/index.html"); err != nil {
		t.Fatalf("%v: make docs", err)
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(dist)))
	t.Cleanup(srv.Close)
	b := (&server{t: t, dir: t.TempDir(), secrets: map[string]string{}}).browse(t)
	b.open(srv.URL + "/")
	b.until(`document.querySelector(".VPNavBarSearch button")`)
	if got := b.text("h1"); got == "" || !b.has(`a[href="/start/wiki.html"]`) || !b.has(".VPFeature") {
		t.Errorf("the start page says %q, or leads nowhere", got)
	}
	for word, page := range map[string]string{"revoke": "", "nginx": "gateways", "passkey": "", "nextcloud": "integrations/nextcloud"} {
		b.open(srv.URL + "/documents.html")
		b.until(`document.querySelector(".VPNavBarSearch button")`)
		eval[any](b, `void document.querySelector(".VPNavBarSearch button").click()`)
		b.until(`document.querySelector("#localsearch-input")`)
		b.fill("#localsearch-input", word)
		b.until(`document.querySelectorAll(".VPLocalSearchBox .result").length > 0`)
		if found := eval[string](b, `[...document.querySelectorAll(".VPLocalSearchBox .result")].map(a => a.href).join(" ")`); page != "" {
			b.until(fmt.Sprintf(`[...document.querySelectorAll(".VPLocalSearchBox .result")].some(a => a.href.includes(%q))`, "/"+page+".html"))
		} else if found == "" {
			t.Errorf("%q finds nothing", word)
		}
	}
	b.screen(390, 844, "dark")
	for _, page := range []string{
		"/", "/guide.html", "/troubleshooting.html", "/integrations.html", "/caddyfile/client.html", "/api/sessions.html", "/start/wiki.html",
	} {
		b.open(srv.URL + page)
		b.until(`document.querySelector(".VPNav")`)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 390 {
			t.Errorf("%s is %d pixels wide on a phone of 390", page, wide)
		}
		b.until(`document.documentElement.classList.contains("dark")`)
		const outside = `performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin)).join(" ")`
		if other := eval[string](b, outside); other != "" {
			t.Errorf("%s asks other servers: %s", page, other)
		}
		const pictures = `[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src).join(" ")`
		if broken := eval[string](b, pictures); broken != "" {
			t.Errorf("%s has broken pictures: %s", page, broken)
		}
	}
}
