package web_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// BenchmarkRender measures the rendering of each page, with four languages to choose from.
func BenchmarkRender(b *testing.B) {
	p, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Locales: all})
	if err != nil {
		b.Fatal(err)
	}
	shown := views()
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodGet, "https://auth.example.com/x?flow=f", nil)
			r.Header.Set("Accept-Language", "nl,en;q=0.8")
			for b.Loop() {
				w := httptest.NewRecorder()
				if p.Render(w, r, shown[name]); w.Code >= http.StatusInternalServerError && shown[name].Status < http.StatusInternalServerError {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
