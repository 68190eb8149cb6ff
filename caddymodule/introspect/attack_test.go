package introspect_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
)

func TestAnswersThatLie(t *testing.T) {
	t.Parallel()
	t.Run("attack 381: answers that lie", func(t *testing.T) {
		t.Parallel()
		var followed atomic.Int64
		inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			followed.Add(1)
			write(w, active())
		}))
		t.Cleanup(inside.Close)
		raw := func(kind, body string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write([]byte(body)) // the asker may have left
			}
		}
		status := func(code int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				fmt.Fprint(w, `{"active":true,"sub":"alice"}`)
			}
		}
		const good = `{"active":true,"sub":"alice","client_id":"shop"}`
		answers := map[string]http.HandlerFunc{
			"active as a text":   raw("application/json", `{"active":"true","sub":"alice"}`),
			"active as a number": raw("application/json", `{"active":1}`),
			"active missing":     raw("application/json", `{}`), "active null": raw("application/json", `{"active":null}`),
			"Active":       raw("application/json", `{"Active":true}`),
			"active twice": raw("application/json", `{"active":false,"active":true}`), "an array": raw("application/json", `[{"active":true}]`),
			"nothing":     raw("application/json", ``),
			"two objects": raw("application/json", good+good), "cut": raw("application/json", good[:20]),
			"not JSON": raw("application/json", "active"),
			"deep":     raw("application/json", strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)),
			"HTML":     raw("text/html", good), "no type": raw("", good),
			"a JWT that was not asked for": raw("application/token-introspection+jwt", "e30.e30."),
			"huge":                         raw("application/json", `{"active":true,"sub":"alice","x":"`+strings.Repeat("x", 300<<10)+`"}`),
			"compressed": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				raw("application/json", good)(w, r)
			},
			"a redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
			},
			"another place": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL, http.StatusFound) },
			"500":           status(500), "503": status(503), "401": status(401), "403": status(403), "400": status(400), "429": status(429),
			"201": status(201), "204": status(204),
			"hangs up":            func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"sub as an object":    raw("application/json", `{"active":true,"sub":{"a":1}}`),
			"sub with a line end": raw("application/json", `{"active":true,"sub":"a\nb"}`),
			"groups of numbers":   raw("application/json", `{"active":true,"sub":"alice","groups":[1]}`),
			"aud as a number":     raw("application/json", `{"active":true,"aud":7}`),
			"exp as a text":       raw("application/json", `{"active":true,"exp":"never"}`),
			"exp before all time": raw("application/json", `{"active":true,"exp":-1}`),
			"scope as an object":  raw("application/json", `{"active":true,"scope":{}}`),
			"client as a list":    raw("application/json", `{"active":true,"client_id":["a"]}`),
			"ten thousand claims": func(w http.ResponseWriter, _ *http.Request) {
				doc := active()
				for i := range 10_000 {
					doc[fmt.Sprint("c", i)] = "x"
				}
				write(w, doc)
			},
		}
		t.Run("attack 208: an authorization server elsewhere that lies, breaks or redirects", func(t *testing.T) {
			t.Parallel()
			for name, answer := range answers {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
					l.change(func() { l.answer = answer })
					l.failed("the answer", "token-1")
					l.change(func() { l.answer = nil })
					l.refused("the next one", "token-1") // nothing of it was kept
				})
			}
			t.Cleanup(func() {
				if n := followed.Load(); n != 0 {
					t.Errorf("redirects were followed %d times", n)
				}
			})
		})
		for name, answer := range map[string]http.HandlerFunc{
			"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"dripping": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(good[:10]))
				w.(http.Flusher).Flush() //nolint:forcetypeassert // it is that of net/http
				<-r.Context().Done()
			},
			"without end": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for chunk := bytes.Repeat([]byte(" "), 1<<20); r.Context().Err() == nil; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := open(t, with(func(o *introspect.Options) { o.Timeout = "200ms" }))
				l.change(func() { l.answer = answer })
				l.failed("the answer", "token")
			})
		}
	})
}

// TestNotAccepted: tokens that the server calls active, and that cannot be used here.
func TestNotAccepted(t *testing.T) {
	t.Parallel()
	t.Run("attack 382: active tokens that cannot be used here", func(t *testing.T) {
		t.Parallel()
		l := open(t, with(func(o *introspect.Options) { o.Issuer = "https://login.example.com" }))
		for name, change := range map[string]map[string]any{
			"bound in an unknown way": {"cnf": map[string]any{"jwk": map[string]any{}}},
			"bound in two ways":       {"cnf": map[string]any{"jkt": "x", "kid": "x"}}, "a cnf of nothing": {"cnf": map[string]any{}},
			"a thumbprint that is no text": {"cnf": map[string]any{"jkt": 7}},
			"a cnf that is a text":         {"cnf": "x"}, "token type DPoP": {"token_type": "DPoP"}, "token type N_A": {"token_type": "N_A"},
			"token type as a list": {"token_type": []string{"Bearer"}},
			"a refresh token":      {"token_type": "refresh_token"}, "Hydra's refresh token": {"token_use": "refresh_token"},
			"Keycloak's refresh token": {"typ": "Refresh"},
			"an offline token":         {"typ": "Offline"}, "an ID token": {"typ": "ID"}, "expired": {"exp": start.Unix()},
			"not valid yet":  {"nbf": start.Unix() + 61},
			"another issuer": {"iss": "https://evil.example"}, "an issuer with a slash": {"iss": "https://login.example.com/"},
			"an issuer of another kind": {"iss": 7},
		} {
			l.says("token", active(change))
			l.refused(name, "token")
		}
		for name, change := range map[string]map[string]any{
			"of the issuer": {"iss": "https://login.example.com"}, "of Keycloak": {"typ": "Bearer", "token_type": "Bearer"},
			"a JWT": {"typ": "at+jwt"}, "without exp": {"exp": nil},
			"valid soon": {"nbf": start.Unix() + 59}, "bound by DPoP": {"cnf": map[string]any{"jkt": "x"}, "token_type": "DPoP"},
			"bound by a certificate": {"cnf": map[string]any{"x5t#S256": "x"}},
		} {
			l.says("token", active(change))
			l.accepted(name, "token")
		}
		if n := l.logs.FilterMessageSnippet("not accepted").Len(); n == 0 {
			t.Error("the log does not say why tokens were refused")
		}
	})
}

// TestBreaker: a server that does not answer is left alone, everybody is refused meanwhile, and one request at a time
// finds out whether it is back.
func TestBreaker(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.says("token", active())
	l.accepted("at first", "token")
	l.change(func() {
		l.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	})
	for range 20 {
		l.failed("down", "token")
	}
	if n := l.count(); n != 6 {
		t.Errorf("asked %d times, want one success and five failures", n)
	}
	l.turn(5*time.Second - 1)
	l.failed("not yet", "token")
	l.turn(1)
	l.failed("tried and still down", "token")
	l.failed("not again at once", "token")
	if n := l.count(); n != 7 {
		t.Errorf("asked %d times, want one more", n)
	}

	arrived, release := make(chan struct{}), make(chan struct{})
	l.change(func() {
		l.answer = func(w http.ResponseWriter, _ *http.Request) {
			arrived <- struct{}{}
			<-release
			write(w, active())
		}
	})
	l.turn(5 * time.Second)
	var one, all sync.WaitGroup
	one.Go(func() { l.accepted("the one that tries", "token") })
	<-arrived
	for i := range 50 {
		all.Go(func() { l.failed("the others", fmt.Sprint("token-", i)) })
	}
	all.Wait()
	close(release)
	one.Wait()
	if n := l.count(); n != 8 {
		t.Errorf("asked %d times, want one more: the server must not be stormed when it comes back", n)
	}
	l.change(func() { l.answer = nil })
	l.accepted("up again", "token")
	l.refused("and it decides again", "unknown")
	for _, message := range []string{"does not answer", "answers again"} {
		if n := l.logs.FilterMessageSnippet(message).Len(); n != 1 {
			t.Errorf("the log says %d times that it %s", n, message)
		}
	}
}

// TestAway plays a server that goes away, hangs, fails and comes back. No token is accepted that it does not vouch for.
func TestAway(t *testing.T) {
	t.Parallel()
	l := open(t, with(func(o *introspect.Options) { o.Cache, o.Timeout = "10s", "2s" }))
	l.says("token", active())
	l.says("long", active(map[string]any{"exp": nil}))
	for round, answer := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		l.change(func() { l.answer = answer })
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { l.failed("away", fmt.Sprint("token-", i)) })
		}
		wg.Wait()
		l.failed("away", "token")
		l.change(func() { l.answer = nil })
		l.failed("back, and not asked yet", "token")
		l.turn(5 * time.Second)
		if in, err := l.Introspect(t.Context(), "token"); err != nil || !in.Active {
			t.Fatalf("round %d: %+v, %v, want it back", round, in, err)
		}
		l.turn(11 * time.Second)
	}
	l.web.Close()
	l.failed("gone", "long")
}

// TestLeaving: who leaves does not take the answer of the others along, and does not count as a failure of the server.
func TestLeaving(t *testing.T) {
	t.Parallel()
	l := open(t, with(func(o *introspect.Options) { o.Cache = "1h" }))
	arrived, release := make(chan struct{}), make(chan struct{})
	l.change(func() {
		l.answer = func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-release
			write(w, active())
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if in, err := l.Introspect(ctx, "token"); err == nil {
			t.Errorf("who has left gets %+v", in)
		}
	})
	<-arrived
	cancel()
	wg.Go(func() { l.accepted("who stays", "token") })
	wg.Go(func() { close(release) })
	wg.Wait()
	if l.count() != 1 {
		t.Errorf("asked %d times, want once", l.count())
	}
}

// TestNothingSecretIsSaid searches log and errors for the token and the secret.
func TestNothingSecretIsSaid(t *testing.T) {
	t.Parallel()
	l := open(t)
	var said []string
	for _, answer := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		func(w http.ResponseWriter, r *http.Request) {
			write(w, map[string]any{"active": r.PostForm.Get("token")})
		},
		func(w http.ResponseWriter, r *http.Request) {
			write(w, active(map[string]any{"sub": []string{r.PostForm.Get("token")}}))
		},
		func(w http.ResponseWriter, r *http.Request) {
			write(w, active(map[string]any{"token_type": r.PostForm.Get("token")}))
		},
	} {
		l.change(func() { l.answer = answer })
		_, err := l.Introspect(t.Context(), "the-token-itself")
		said = append(said, fmt.Sprint(err))
	}
	for _, e := range l.logs.All() {
		said = append(said, e.Message+fmt.Sprint(e.ContextMap()))
	}
	for _, secret := range []string{"the-token-itself", "s3cret", "/introspect"} {
		if text := strings.Join(said, "\n"); strings.Contains(text, secret) {
			t.Errorf("%q is said: %s", secret, text)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	l := open(t)
	if err := l.Probe(t.Context()); err != nil || l.count() != 1 {
		t.Errorf("Probe = %v after %d questions, want none wrong", err, l.count())
	}
	for name, answer := range map[string]http.HandlerFunc{
		"credentials":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"no one has issued": func(w http.ResponseWriter, _ *http.Request) { write(w, active()) },
		"that no one":       func(w http.ResponseWriter, _ *http.Request) { write(w, active(map[string]any{"exp": 1})) },
		"is an HTML page":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		l.change(func() { l.answer = answer })
		if err := l.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Probe = %v, want %q", err, name)
		}
	}
}
