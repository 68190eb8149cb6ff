package oidc_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/idp"
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

// TestIssuerThatDiffers: metadata of another issuer, be it by a slash, is a fault of the configuration, which waiting
// does not help.
func TestIssuerThatDiffers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(issuer string) string{
		"a slash more":   func(s string) string { return s + "/" },
		"a path more":    func(s string) string { return s + "/realms/staff" },
		"another scheme": func(s string) string { return strings.Replace(s, "http:", "https:", 1) },
		"a host in capitals": func(s string) string {
			return strings.Replace(s, "127.0.0.1", "LOCALHOST", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			l.op.Change(func(s *oidctest.Script) { s.Discovery = map[string]any{"issuer": change(l.op.URL)} })
			if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1}); !errors.As(err, new(*idp.Misconfigured)) {
				t.Errorf("Begin = %v, want Misconfigured", err)
			}
		})
	}
}
