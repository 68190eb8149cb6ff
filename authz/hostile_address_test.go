package authz_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/outbound/outboundtest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// outgoing are the ways in which a client that no one knows can make a server call an address of its choice.
var outgoing = map[string]func(r *authztest.Receiver, addresses []string) (called int){
	"jwks_uri":                      calledForKeys,
	"backchannel_logout_uri":        calledForLogout,
	"endpoint_url of a signal push": calledForSignals,
}

func newCaller(t *testing.T, more ...authztest.Option) *authztest.Receiver {
	t.Helper()
	r := &authztest.Receiver{ID: "siem"}
	r.Harness = authztest.New(t, append([]authztest.Option{
		authztest.WithClients(authztest.ReceiverClient("siem", ssf.ScopeManage)), authztest.WithConfig(func(c *authz.Config) {
			c.Signals = ssf.Config{On: true, All: true}
			c.Registration.Who, c.Registration.Limit = "open", 1000
		}),
	}, more...)...)
	r.Bearer = r.As("siem", ssf.ScopeManage)
	return r
}

// registersAs registers a client with more metadata. It returns "" if that is refused.
func registersAs(r *authztest.Receiver, more authztest.Object) (id, key string) {
	r.T.Helper()
	all := authztest.Object{"redirect_uris": []string{strangerRedirect}}
	for name, v := range more {
		all[name] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		r.T.Fatal(err)
	}
	res := authztest.Registers(r.Harness, string(raw))
	return res.Text("client_id"), res.Text("client_secret")
}

func calledForKeys(r *authztest.Receiver, addresses []string) (called int) {
	r.T.Helper()
	k := authztest.NewSigner(r.T, "rp", jose.ES256)
	for _, at := range addresses {
		if k.Client.ID, _ = registersAs(r, authztest.Object{"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": at}); k.Client.ID == "" {
			continue
		}
		called++
		if res := r.Post("/oauth/token", authztest.AssertionForm(k.Sign(r.T, k.Claims(r.Harness), ""))); res.Status < 400 ||
			res.Text("access_token") != "" {
			r.T.Errorf("jwks_uri %s: token = %d %s", at, res.Status, res.Body)
		}
	}
	return called
}

func calledForLogout(r *authztest.Receiver, addresses []string) (called int) {
	r.T.Helper()
	b := r.Browser(authztest.Demo)
	for _, at := range addresses {
		id, key := registersAs(r, authztest.Object{"backchannel_logout_uri": at})
		if id == "" {
			continue
		}
		called++
		v := authztest.RegisteredParams(id, strangerRedirect, "openid")
		v.Del("resource")
		_, params := b.Follow("/oauth/authorize?" + v.Encode()).Redirect()
		authztest.WantStatus(r.T.(*testing.T), "token",
			authztest.RedeemRegistered(r.Harness, id, params.Get("code"), strangerRedirect, authztest.Basic(id, key)...), http.StatusOK)
	}
	if err := r.Store.Update(r.T.Context(),
		func(tx storage.Tx) error { return r.Server().SessionEnded(tx, authztest.Demo, b.Session()) }); err != nil {
		r.T.Fatal(err)
	}
	if err := r.Server().CatchUp(r.T.Context()); err != nil {
		r.T.Error(err)
	}
	return called
}

func calledForSignals(r *authztest.Receiver, addresses []string) (called int) {
	r.T.Helper()
	for _, at := range addresses {
		res := r.Ask(r.Bearer, "POST", "/ssf/stream",
			authztest.Object{"delivery": authztest.Object{"method": authztest.PushMethod, "endpoint_url": at}})
		if res.Status != http.StatusCreated {
			continue
		}
		called++
		r.Happens("person.PersonRemovedEvent", authztest.Demo)
		if err := r.Server().CatchUp(r.T.Context()); err != nil {
			r.T.Error(err)
		}
		r.Want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+res.Text("stream_id"), nil)
	}
	return called
}

// TestStrangersAddresses: a client that registers itself names addresses of the network behind the server. None makes a
// connection.
func TestStrangersAddresses(t *testing.T) {
	t.Parallel()
	for what, call := range outgoing {
		t.Run("attack 264: "+what+" of a stranger", func(t *testing.T) {
			t.Parallel()
			port, met := outboundtest.Inside(t)
			var addresses []string
			for _, host := range outboundtest.Hosts {
				addresses = append(addresses, "https://"+host+":"+port+"/x")
			}
			r := newCaller(t)
			if called := call(r, addresses); called < 20 || met() != 0 {
				t.Errorf("%d of %d addresses were taken and made %d connections, want none", called, len(addresses), met())
			}
		})
	}
}

// TestStrangersHosts: an address that is allowed answers with a redirect, without end, in half or never, or with
// something else. Nothing else is called, what is read has a bound, and nothing stays behind.
func TestStrangersHosts(t *testing.T) {
	t.Parallel()
	for what, call := range outgoing {
		t.Run("attack 264: "+what+" at a hostile host", func(t *testing.T) {
			t.Parallel()
			port, met := outboundtest.Inside(t)
			var body atomic.Int64
			answer := hostileAnswers("http://127.0.0.1:"+port+"/", &body)
			hostile := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) //nolint:errcheck // or the server does not notice that the other side has gone
				answer[r.URL.Path](w, r)
			}))
			t.Cleanup(hostile.Close)
			c := outbound.New(false, netip.MustParsePrefix("127.0.0.0/8"))
			c.Timeout = 200 * time.Millisecond                                            // as in real life, but for the waiting
			inner := c.Transport.(*http.Transport)                                        //nolint:forcetypeassert,errcheck // of outbound
			roots := hostile.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert,errcheck // of httptest
			inner.TLSClientConfig = &tls.Config{RootCAs: roots}                           //nolint:forcetypeassert,errcheck,gosec // of httptest
			c.Transport = marked{inner, what}
			r := newCaller(t, authztest.WithHTTP(c))
			var addresses []string
			for path := range answer {
				addresses = append(addresses, hostile.URL+path)
			}
			called := call(r, addresses)
			if called != len(addresses) || met() != 0 || body.Load() > 64<<20 {
				t.Errorf("%d of %d addresses were taken; %d requests followed a redirect, %d bytes were read of an endless answer", called,
					len(addresses), met(), body.Load())
			}
			inner.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			for tick := time.NewTicker(20 * time.Millisecond); marks(t, what) > 0; {
				select {
				case <-tick.C:
				case <-ctx.Done():
					t.Fatalf("%d goroutines stay behind", marks(t, what))
				}
			}
		})
	}
}

// marked marks the goroutines that a transport starts.
type marked struct {
	inner *http.Transport
	mark  string
}

func (m marked) RoundTrip(r *http.Request) (res *http.Response, err error) {
	pprof.Do(r.Context(), pprof.Labels("outgoing", m.mark), func(context.Context) { res, err = m.inner.RoundTrip(r) })
	return res, err
}

// marks counts goroutines with a mark.
func marks(t *testing.T, mark string) (n int) {
	t.Helper()
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf(`"outgoing":%q`, mark)) {
			n++
		}
	}
	return n
}

// hostileAnswers are answers by paths. inside must not be called.
func hostileAnswers(inside string, body *atomic.Int64) map[string]http.HandlerFunc {
	away := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside, status) }
	}
	text := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write([]byte(text)) //nolint:errcheck // the other side has gone
		}
	}
	return map[string]http.HandlerFunc{
		"/301": away(301), "/302": away(302), "/303": away(303), "/307": away(307), "/308": away(308),
		"/html":   text("text/html", `<meta http-equiv="refresh" content="0; url=`+inside+`">`),
		"/deep":   text("application/json", strings.Repeat("[", 1<<16)),
		"/jku":    text("application/json", `{"keys":[{"kty":"EC","jku":"`+inside+`","x5u":"`+inside+`"}],"$ref":"`+inside+`"}`),
		"/header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
		"/link": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<"+inside+">; rel=preload")
			w.Header().Set("Refresh", "0; url="+inside)
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		},
		"/never": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/half": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte("{"))                  //nolint:errcheck // the other side has gone
			http.NewResponseController(w).Flush() //nolint:errcheck // the same
			<-r.Context().Done()
		},
		"/endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				n, err := w.Write([]byte(strings.Repeat(" ", 4096)))
				if body.Add(int64(n)); err != nil {
					return
				}
			}
		},
	}
}
