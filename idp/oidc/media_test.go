package oidc_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// mislabelled writes JSON with another content type. Empty: with none.
type mislabelled struct {
	http.ResponseWriter
	media string
	begun bool
}

func (m *mislabelled) WriteHeader(status int) {
	if m.Header().Get("Content-Type") == "application/json" {
		m.Header().Set("Content-Type", m.media)
		if m.media == "" {
			m.Header()["Content-Type"] = nil
		}
	}
	m.begun = true
	m.ResponseWriter.WriteHeader(status)
}

func (m *mislabelled) Write(b []byte) (int, error) {
	if !m.begun {
		m.WriteHeader(http.StatusOK)
	}
	return m.ResponseWriter.Write(b)
}

// TestJSONOfAnotherContentType: metadata, keys, tokens and user info are JSON objects, whatever a bucket or a script
// calls them.
func TestJSONOfAnotherContentType(t *testing.T) {
	t.Parallel()
	for _, media := range []string{
		"text/plain", "text/plain; charset=utf-8", "text/html", "text/html; charset=ISO-8859-1", "text/javascript", "application/octet-stream",
		"application/jwk-set+json", "application/x-json", "TEXT/JSON", "json", "a b; c", "",
	} {
		t.Run(media, func(t *testing.T) {
			t.Parallel()
			op := oidctest.New(t)
			op.Front(func(provider http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					provider.ServeHTTP(&mislabelled{ResponseWriter: w, media: media}, r)
				})
			})
			l := openAs(t, "corp", op)
			if _, err := l.signIn(whenever); err != nil {
				t.Errorf("sign-in at a provider that answers %q: %v", media, err)
			}
			if n := op.Count("/userinfo"); n == 0 {
				t.Error("user info was not asked for")
			}
		})
	}
}
