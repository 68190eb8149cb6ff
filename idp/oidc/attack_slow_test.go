package oidc_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

func TestAttackSlowAndHuge(t *testing.T) {
	t.Parallel()
	t.Run("attack 118: answers that are huge, dripping, compressed, redirects or of another type", func(t *testing.T) {
		t.Parallel()
		var bomb bytes.Buffer
		z := gzip.NewWriter(&bomb)
		for range 64 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		inside := oidctest.New(t) // a server on the intranet
		answers := map[string]http.HandlerFunc{
			"huge": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				chunk := bytes.Repeat([]byte(" "), 1<<20)
				for range 200 {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			},
			"dripping": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-r.Context().Done():
						return
					case <-tick.C:
						if _, err := w.Write([]byte(" ")); err != nil {
							return
						}
						w.(http.Flusher).Flush()
					}
				}
			},
			"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"compressed": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(bomb.Bytes()) // we hang up
			},
			"redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, inside.URL+"/admin", http.StatusTemporaryRedirect)
			},
			"HTML": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, `<html>{"keys":[]}</html>`)
			},
			"garbage": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"a":`)
			},
			"nested": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_000))
			},
			"500": func(w http.ResponseWriter, _ *http.Request) {
				oidctest.JSON(w, http.StatusInternalServerError, map[string]string{"error": "x"})
			},
			"cut": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{`)
			},
		}
		for _, path := range []string{"/.well-known/openid-configuration", "/jwks", "/token", "/userinfo"} {
			for name, h := range answers {
				t.Run(path+" "+name, func(t *testing.T) {
					t.Parallel()
					l := open(t, func(c *oidc.Config) { c.Timeout = 2 * time.Second })
					l.op.Change(func(s *oidctest.Script) { s.Handlers = map[string]http.HandlerFunc{path: h} })
					next, err := l.Begin(t.Context(), idp.Request{Flow: flowName, MaxAge: -1})
					if path == "/.well-known/openid-configuration" {
						if err == nil {
							t.Error("Begin holds")
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					got, err := l.Finish(t.Context(), next.State, l.visit(next))
					if err == nil {
						t.Errorf("signed in as %+v", got)
					}
					if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
						t.Errorf("the error holds an address: %v", err)
					}
				})
			}
		}
		t.Cleanup(func() {
			if n := inside.Count("/admin"); n != 0 {
				t.Errorf("redirects were followed %d times", n)
			}
		})
	})
	t.Run("attack 264: metadata that lead to a host inside", func(t *testing.T) {
		t.Parallel()
		inside := oidctest.New(t)
		for _, name := range []string{"jwks_uri", "token_endpoint", "userinfo_endpoint"} {
			l := open(t)
			l.op.Change(func(s *oidctest.Script) { s.Discovery = map[string]any{name: inside.URL + "/admin"} })
			if got, err := l.signIn(whenever); err == nil {
				t.Errorf("%s elsewhere: signed in as %+v", name, got)
			}
		}
		for _, at := range []string{
			"file:///etc/passwd", "http://10.0.0.1/", "ftp://127.0.0.1/", "http://127.0.0.1@evil.example/",
			"//evil.example", "http://evil.example/",
		} {
			l := open(t)
			l.op.Change(func(s *oidctest.Script) { s.Discovery = map[string]any{"jwks_uri": at} })
			if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName}); err == nil {
				t.Errorf("metadata with jwks_uri %s are taken", at)
			}
		}
		if n := inside.Count("/admin"); n != 0 {
			t.Errorf("the host inside was asked %d times", n)
		}
	})
}

// TestBreaker: a provider that does not answer is left alone for some seconds, and then contacted again.
func TestBreaker(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.accepts("control")
	l.op.Change(func(s *oidctest.Script) {
		s.Handlers = map[string]http.HandlerFunc{"/token": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}
	})
	for range 20 {
		if _, err := l.signIn(whenever); kind(err) != "unknown" {
			t.Fatalf("a provider that hangs up: %v", err)
		}
	}
	// one success, five failures that open the breaker, and one retry by net/http itself
	if n := l.op.Count("/token"); n > 7 {
		t.Errorf("the provider was asked %d times while it was down, want it left alone after 5", n)
	}
	l.op.Change(func(s *oidctest.Script) { s.Handlers = nil })
	l.clock.Advance(6 * time.Second)
	l.accepts("up again")
	l.accepts("and on")
}

// TestNothingSecretIsLogged searches log and errors for the secrets of a sign-in.
func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	l := open(t)
	var errs []string
	for _, change := range []map[string]any{{"iss": "https://evil.example"}, {"aud": "evil"}, {"exp": 1}, {"nonce": "evil"}, {"sub": ""}} {
		l.idToken(change)
		_, err := l.signIn(whenever)
		errs = append(errs, fmt.Sprint(err))
	}
	raw := l.op.LogoutToken(map[string]any{"aud": "evil"})
	l.backChannel(t, raw, new(host))
	_, form := l.op.Last("/token")
	secrets := []string{
		oidctest.ClientSecret, url.QueryEscape(oidctest.ClientSecret), form.Get("code"),
		form.Get("code_verifier"), raw, "evil",
	}
	text := strings.Join(errs, "\n")
	for _, e := range l.log.All() {
		text += e.Message + fmt.Sprint(e.ContextMap())
	}
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%.12q is in a log or error: %s", s, text)
		}
	}
}

// TestRepointed checks that tokens of one provider are never sent to another provider that takes over its id.
func TestRepointed(t *testing.T) {
	t.Parallel()
	t.Run("attack 114: refresh token and ID token of the issuer that was configured before", func(t *testing.T) {
		t.Parallel()
		before := open(t)
		id, err := before.signIn(whenever)
		if err != nil {
			t.Fatal(err)
		}
		after := open(t)
		after.op.Change(func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/token": func(w http.ResponseWriter, _ *http.Request) {
				t.Error("the new issuer was sent the refresh token of the old one")
				w.WriteHeader(http.StatusBadRequest)
			}}
		})
		if _, err := after.Refresh(t.Context(), id.Held); !isRejection(err) {
			t.Errorf("Refresh = %v, want a rejection", err)
		}
		if next, err := after.End(t.Context(), idp.EndRequest{Flow: flowName, Held: id.Held}); next != nil || err != nil {
			t.Errorf("End = %v, %v, want nothing: the new issuer must not see the ID token", next, err)
		}
	})
}
