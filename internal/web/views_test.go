package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/internal/web/sample"
)

// zeros is a source of randomness that makes pages repeatable.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func newRenderer(t *testing.T, brand web.Brand) *web.Renderer {
	t.Helper()
	p, err := web.New(web.Config{Brand: brand, Issuer: "https://auth.example.com", Key: make([]byte, 32), Random: zeros{}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var shop, nav = sample.Shop, sample.Nav

// views is every page in the shapes that matter.
func views() map[string]web.View { return sample.Views() }

func render(p *web.Renderer, v web.View) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.Render(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil), v)
	return w
}

// everyPage returns every page and the error pages, rendered.
func everyPage(t *testing.T) map[string]*httptest.ResponseRecorder {
	t.Helper()
	p := newRenderer(t, web.Brand{})
	out := map[string]*httptest.ResponseRecorder{}
	for name, v := range views() {
		out[name] = render(p, v)
	}
	for name, e := range map[string]struct {
		status     int
		key, again string
	}{
		"error_expired":  {400, "error.expired", "/oauth/authorize?request=r"},
		"error_internal": {500, "error.internal", ""},
		"error_down":     {503, "error.unavailable", "/account"},
		"error_unknown":  {400, "error.no_such_key", ""},
	} {
		w := httptest.NewRecorder()
		p.Error(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil), e.status, e.key, e.again)
		out[name] = w
	}
	for name, fields := range map[string][]web.Hidden{"error_onward": nil, "error_onward_form": {{Name: "error", Value: "invalid_scope"}}} {
		w := httptest.NewRecorder()
		p.Fail(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com/x", nil), http.StatusBadRequest, web.Failure{
			Key:    "error.unregistered",
			Onward: web.Onward{Host: "shop.example.com", Address: "https://shop.example.com/cb?error=invalid_scope", Fields: fields},
		})
		out[name] = w
	}
	return out
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func get(p *web.Renderer, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.Assets().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://auth.example.com"+path, nil))
	return w
}
