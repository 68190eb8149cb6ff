package oidc_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestPresetsDown: Apple and itsme, where an endpoint is down, slow or talks garbage, sign no one in, and no one waits
// longer than the timeout.
func TestPresetsDown(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	soon := func(c *oidc.Config) { c.Timeout = timeout }
	type way struct {
		open   func(*testing.T) *lab
		finish func(*lab) (*idp.Identity, error)
		paths  []string
	}
	ways := map[string]way{
		"Apple": {
			func(t *testing.T) *lab { return openApple(t, soon) }, func(l *lab) (*idp.Identity, error) { return l.byApple(nil) },
			[]string{"/auth/token", "/auth/keys"},
		},
		"itsme": {
			func(t *testing.T) *lab { return openItsme(t, soon) }, func(l *lab) (*idp.Identity, error) { return l.signIn(whenever) },
			[]string{"/v2/token", "/v2/jwkSet", "/v2/userinfo"},
		},
	}
	for mode, answer := range map[string]http.HandlerFunc{
		"slow":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"down":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"failing": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) },
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("\x00\xff{{{")) // the client may be gone
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"x":"` + strings.Repeat("x", 4<<20))) // the client may be gone
		},
	} {
		for name, way := range ways {
			for _, path := range way.paths {
				t.Run(name+" "+path+" "+mode, func(t *testing.T) {
					t.Parallel()
					l := way.open(t)
					l.op.Change(func(s *oidctest.Script) { s.Handlers = map[string]http.HandlerFunc{path: answer} })
					began := time.Now()
					got, err := way.finish(l)
					if took := time.Since(began); err == nil || isRejection(err) || took > time.Minute {
						t.Errorf("%+v, %v after %s, want an error in time", got, err, took)
					}
				})
			}
		}
	}
}
