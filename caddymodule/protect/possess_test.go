package protect

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// held is a token that is bound to a key.
type held struct {
	*dpoptest.Key
	g     *gateway
	token string
}

func (g *gateway) held(t *testing.T) held {
	t.Helper()
	k := held{dpoptest.NewKey(t), g, newToken(t, secret.AccessToken)}
	who := person(1, "staff", "admins")
	who.Confirmation = token.Confirmation{JKT: k.JKT}
	g.fake.set(func() { g.fake.tokens[k.token] = who })
	return k
}

// lines is a request with the token and a proof for an address.
func (k held) lines(host, target, url string, more ...string) []string {
	return slices.Concat([]string{
		"GET " + target + " HTTP/1.1", "Host: " + host, "Authorization: DPoP " + k.token,
		"DPoP: " + k.Proof("GET", url, k.token, time.Now()),
	}, more)
}

// get sends a request with the token and a good proof.
func (k held) get(t testing.TB, host, target string, more ...string) answer {
	t.Helper()
	return k.g.raw(t, k.lines(host, target, "http://"+host+target, more...)...)
}

func lastly(t testing.TB, addr string, lines []string) answer {
	t.Helper()
	conn := caddytest.Dial(t, addr)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, conn, bufio.NewReader(conn), "GET")
}

// TestPossess: a token that is bound to a key opens a site with a proof of that key for this very request, and with
// nothing else. (RFC 9449 7)
func TestPossess(t *testing.T) {
	g := startGateway(t)
	k := g.held(t)
	t.Run("passes", func(t *testing.T) {
		s := g.passed(t, k.get(t, "open.test", "/a?b=c"))
		if len(s.values("Remote-User")) != 1 || len(s.values("Authorization")) != 1 || len(s.values("DPoP")) != 1 {
			t.Errorf("the upstream got %q, want the identity, and token and proof as they came", s.header)
		}
		lower := k.lines("open.test", "/", "http://open.test/")
		lower[2] = "Authorization: dPoP " + k.token
		g.passed(t, g.raw(t, lower...))
		if s := g.passed(t, k.get(t, "strip.test", "/")); len(s.values("Authorization"))+len(s.values("DPoP")) > 0 {
			t.Errorf("with strip_token the upstream got %q, want neither token nor proof", s.header)
		}
		g.passed(t, k.get(t, "second.test", "/admin/")) // through two protects, one of which is told of the other
		g.passed(t, k.get(t, "stripped.test", "/app/x"))
	})
	t.Run("behind a proxy", func(t *testing.T) {
		forwarded := []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: www.example.com"}
		g.passed(t, lastly(t, g.trusted, k.lines("open.test", "/", "https://www.example.com/", forwarded...)))
		g.refused(t, lastly(t, g.trusted, k.lines("open.test", "/", "http://open.test/", forwarded...)), http.StatusUnauthorized)
		g.passed(t, lastly(t, g.trusted, k.lines("open.test", "/", "http://open.test/")))
	})
	g.attack(t, "attack 406: headers of a peer that is not a proxy", func(t *testing.T) {
		for _, header := range []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: evil.test", "Forwarded: host=evil.test;proto=https"} {
			for _, url := range []string{"https://open.test/", "http://evil.test/", "https://evil.test/"} {
				g.refused(t, g.raw(t, k.lines("open.test", "/", url, header)...), http.StatusUnauthorized)
			}
		}
	})
	g.attack(t, "attack 404: a bound token without its key", func(t *testing.T) {
		thief := dpoptest.NewKey(t)
		proof := func(k *dpoptest.Key, changes ...dpoptest.Claims) string {
			return "DPoP: " + k.Proof("GET", "http://open.test/", g.user, time.Now(), changes...)
		}
		own := func(changes ...dpoptest.Claims) string {
			return "DPoP: " + k.Proof("GET", "http://open.test/", k.token, time.Now(), changes...)
		}
		other := "DPoP: " + thief.Proof("GET", "http://open.test/", k.token, time.Now())
		for name, c := range map[string]struct {
			authorization string
			proofs        []string
			reason        string
		}{
			"a bearer token":                {"Bearer " + k.token, nil, "key_unproved"},
			"a bearer token with its proof": {"Bearer " + k.token, []string{own()}, "key_unproved"},
			"no proof":                      {"DPoP " + k.token, nil, "proof_invalid"},
			"another key":                   {"DPoP " + k.token, []string{other}, "key_unproved"},
			"two proofs":                    {"DPoP " + k.token, []string{own(), own()}, "proof_invalid"},
			"another token's":               {"DPoP " + k.token, []string{proof(k.Key)}, "proof_invalid"},
			"a free token":                  {"DPoP " + g.user, []string{proof(thief)}, "key_unproved"},
			"another path":                  {"DPoP " + k.token, []string{own(dpoptest.Claims{"htu": "http://open.test/x"})}, "proof_invalid"},
			"another method":                {"DPoP " + k.token, []string{own(dpoptest.Claims{"htm": "POST"})}, "proof_invalid"},
			"old": {
				"DPoP " + k.token,
				[]string{own(dpoptest.Claims{"iat": time.Now().Add(-time.Hour).Unix()})},
				"proof_invalid",
			},
			"no text":          {"DPoP " + k.token, []string{"DPoP: x"}, "proof_invalid"},
			"an expired token": {"DPoP " + g.expired, []string{own()}, "token_inactive"},
			"no token":         {"DPoP", []string{own()}, "malformed_request"},
			"a token twice":    {"DPoP " + k.token + ", Bearer " + k.token, []string{own()}, "malformed_request"},
		} {
			a := g.raw(t, slices.Concat([]string{"GET / HTTP/1.1", "Host: open.test", "Authorization: " + c.authorization}, c.proofs)...)
			want := http.StatusUnauthorized
			if c.reason == "malformed_request" {
				want = http.StatusBadRequest
			}
			g.refused(t, a, want)
			first := a.Header.Get("WWW-Authenticate")
			if all := strings.Join(a.Header.Values("WWW-Authenticate"), "; "); !strings.Contains(all,
				`DPoP algs="ES256 EdDSA Ed25519 PS256 RS256"`) && want == http.StatusUnauthorized ||
				strings.HasPrefix(first, "DPoP") != strings.HasPrefix(c.authorization, "DPoP") {
				t.Errorf("%s: WWW-Authenticate = %q, want one by the scheme that was used first, and algs", name, all)
			}
			if (a.Header.Get("DPoP-Nonce") != "") != (name == "old") {
				t.Errorf("%s: DPoP-Nonce = %q", name, a.Header.Get("DPoP-Nonce"))
			}
		}
		certificate := newToken(t, secret.AccessToken)
		g.fake.set(func() {
			g.fake.tokens[certificate] = person(1)
			g.fake.tokens[certificate].Confirmation = token.Confirmation{X5T: "x"}
		})
		g.refused(t, g.raw(t, "GET / HTTP/1.1", "Host: open.test", "Authorization: Bearer "+certificate), http.StatusUnauthorized)
	})
	g.attack(t, "attack 401: a proof used again", func(t *testing.T) {
		lines := k.lines("open.test", "/", "http://open.test/")
		var all sync.WaitGroup
		results := make([]int, 50)
		for i := range results {
			conn := caddytest.Dial(t, g.addr)
			all.Go(func() {
				if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
					t.Error(err)
					return
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error(err)
					return
				}
				results[i] = res.StatusCode
			})
		}
		all.Wait()
		passed := 0
		for _, status := range results {
			switch status {
			case http.StatusOK:
				passed++
			case http.StatusUnauthorized:
			default:
				t.Errorf("status = %d, want 200 or 401", status)
			}
		}
		if seen := g.take(); passed != 1 || len(seen) != 1 {
			t.Errorf("%d of 50 passed and the upstream saw %d, want one", passed, len(seen))
		}
		g.passed(t, k.get(t, "open.test", "/"))
	})
	t.Run("tokens of another server", func(t *testing.T) {
		const free, bound = "free", "bound"
		g.other.set(func() {
			g.other.good[free], g.other.good[bound], g.other.away = true, true, false
			g.other.bound[bound] = `,"token_type":"DPoP","cnf":{"jkt":"` + k.JKT + `"}`
		})
		there := held{k.Key, g, bound}
		g.passed(t, there.get(t, "remote.test", "/"))
		g.refused(t, g.raw(t, "GET / HTTP/1.1", "Host: remote.test", "Authorization: Bearer "+bound), http.StatusUnauthorized)
		g.refused(t, held{k.Key, g, free}.get(t, "remote.test", "/"), http.StatusUnauthorized)
		g.refused(t, held{dpoptest.NewKey(t), g, bound}.get(t, "remote.test", "/"), http.StatusUnauthorized)
		g.passed(t, g.raw(t, "GET / HTTP/1.1", "Host: remote.test", "Authorization: Bearer "+free))
	})
}
