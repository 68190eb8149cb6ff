package web

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestFont: every page has the font from its own origin, its files are kept forever and are small, and its license is
// with them.
func TestFont(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Issuer: "https://auth.example.com", Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	get := func(r *Renderer, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.Assets().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	const most = 120 << 10
	size := 0
	sheet := get(p, p.assets.css).Body.String()
	files := regexp.MustCompile(`url\((inter[a-z]+-[0-9a-f]+\.woff2)\)`).FindAllStringSubmatch(sheet, -1)
	for _, m := range files {
		w := get(p, "/assets/"+m[1])
		size += w.Body.Len()
		if !strings.HasPrefix(w.Body.String(), "wOF2") || w.Header().Get("Content-Type") != "font/woff2" ||
			!strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("GET %s = %d %v", m[1], w.Code, w.Header())
		}
	}
	if len(files) != len(fonts) || size == 0 || size > most {
		t.Errorf("the stylesheet names %d files of the font with %d bytes, want %d with at most %d", len(files), size, len(fonts), most)
	}
	for name, r := range map[string]*Renderer{"issuer": p, "site": p.On("https://wiki.example.com", "/.gatehouse")} {
		w := httptest.NewRecorder()
		r.Render(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil),
			View{Template: "message", Data: Message{Key: "signed_out"}})
		if page := w.Body.String(); !strings.Contains(page, `<link rel="preload" href="`+r.assets.font+`" as="font" type="font/woff2" crossorigin>`) ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "font-src 'self';") {
			t.Errorf("%s: policy %q, page\n%s", name, w.Header().Get("Content-Security-Policy"), page)
		}
	}
}
