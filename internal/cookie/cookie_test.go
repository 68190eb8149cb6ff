package cookie_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestNames(t *testing.T) {
	t.Parallel()
	https, http1, http2 := cookie.For("https://auth.example.com"), cookie.For("http://localhost:9080"), cookie.For("http://localhost:9081")
	if n := https.Name("session"); !strings.HasPrefix(n, "__Host-gh-") {
		t.Errorf("https name = %q, want the __Host- prefix", n)
	}
	if strings.HasPrefix(http1.Name("session"), "__Host-") {
		t.Error("http name has a prefix that browsers refuse without Secure")
	}
	if http1.Name("session") == http2.Name("session") {
		t.Error("two ports of one host share a cookie name")
	}
	if cookie.For("https://AUTH.example.com").Name("a") != https.Name("a") {
		t.Error("the case of an origin changes the cookie name")
	}
}

func TestIsOurs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		want bool
	}{
		{cookie.For("https://a.example").Name("session"), true},
		{cookie.For("http://localhost:1").Name("browser"), true},
		{strings.ToUpper(cookie.For("https://a.example").Name("session")), true},
		{"session", false},
		{"gh-session", false},
		{"gh-preferences-x", false},
		{"__Host-sid", false},
		{"gh-", false},
		{"", false},
	} {
		if got := cookie.IsOurs(c.name); got != c.want {
			t.Errorf("IsOurs(%q) = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	for origin, secure := range map[string]bool{"https://a.example": true, "http://localhost:1": false} {
		w := httptest.NewRecorder()
		cookie.For(origin).Set(w, "session", "v", 0)
		got := w.Result().Cookies()
		if len(got) != 1 {
			t.Fatalf("%s: %d cookies, want 1", origin, len(got))
		}
		c := got[0]
		if c.Secure != secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" || c.Path != "/" {
			t.Errorf("%s: cookie = %v", origin, c)
		}
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	j := cookie.For("http://localhost:1")
	name := j.Name("session")
	for header, want := range map[string]string{
		name + "=v":                             "v",
		name + "=v; " + name + "=w":             "", // two: the server cannot tell which is its own
		"other=v":                               "",
		name + "=" + strings.Repeat("x", 257):   "",
		cookie.For("http://x").Name("s") + "=v": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Cookie", header)
		if got := j.Get(r, "session"); got != want {
			t.Errorf("Get of %q = %q, want %q", header, got, want)
		}
	}
}

func TestBrowser(t *testing.T) {
	t.Parallel()
	j := cookie.For("http://localhost:1")
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	id := strings.Repeat("a", 43)
	got, err := j.Browser(w, r, func() (string, error) { return id, nil })
	if err != nil || got != id {
		t.Fatalf("Browser = %q, %v", got, err)
	}
	again := httptest.NewRequest(http.MethodGet, "/", nil)
	again.AddCookie(w.Result().Cookies()[0])
	if !j.SameBrowser(again, secret.Hash(id)) {
		t.Error("the browser that got the cookie is not recognised")
	}
	if j.SameBrowser(r, secret.Hash(id)) || j.SameBrowser(again, "") || j.SameBrowser(again, secret.Hash("b")) {
		t.Error("another browser is taken for the one that started")
	}
	w2 := httptest.NewRecorder()
	if v, err := j.Browser(w2, again, func() (string, error) { t.Error("a new id for a known browser"); return "", nil }); err != nil ||
		v != id || len(w2.Result().Cookies()) != 0 {
		t.Errorf("second Browser = %q, %v", v, err)
	}
}

func TestBrowserIsSetOnceAnAnswer(t *testing.T) {
	t.Parallel()
	j := cookie.For("https://auth.example.com")
	n := 0
	newID := func() (string, error) { n++; return strings.Repeat("abc"[n-1:n], 43), nil }
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	first, err1 := j.Browser(w, r, newID)
	second, err2 := j.Browser(w, r, newID)
	if err1 != nil || err2 != nil || first != second || len(w.Result().Cookies()) != 1 {
		t.Errorf("Browser twice in one answer = %q, %q with %d cookies, want one value and one cookie: %v %v",
			first, second, len(w.Result().Cookies()), err1, err2)
	}
}

// TestBrowserTakesNoGuessableBinding: a short value that someone has planted in a browser binds no flow, since they
// could send it too.
func TestBrowserTakesNoGuessableBinding(t *testing.T) {
	t.Parallel()
	j := cookie.For("https://auth.example.com")
	fresh := strings.Repeat("f", 43)
	for value, want := range map[string]string{
		"": fresh, "x": fresh, strings.Repeat("a", 42): fresh,
		strings.Repeat("a", 43): strings.Repeat("a", 43),
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: j.Name(cookie.KindBrowser), Value: value}) //nolint:gosec // of a request
		got, err := j.Browser(httptest.NewRecorder(), r, func() (string, error) { return fresh, nil })
		if err != nil || got != want {
			t.Errorf("Browser with the cookie %q = %q, %v, want %q", value, got, err, want)
		}
	}
}
