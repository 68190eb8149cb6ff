package protect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// testKeys are made once for the package: an RSA key takes its time.
var testKeys = sync.OnceValue(func() *keys.Keys {
	store, err := badgerstore.OpenMemory()
	if err != nil {
		panic(err)
	}
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		panic(err)
	}
	k, err := keys.New(context.Background(), store, ring, nil, nil, nil)
	if err != nil {
		panic(err)
	}
	return k
})

type asserted struct {
	Issuer   string   `json:"iss"`
	Audience string   `json:"aud"`
	Subject  string   `json:"sub"`
	Client   string   `json:"client_id"`
	Session  string   `json:"sid"`
	ACR      string   `json:"acr"`
	Groups   []string `json:"groups"`
	Confirm  struct {
		Request string `json:"req#S256"`
	} `json:"cnf"`
}

// asserted reads the one assertion that an upstream got, as an upstream would: bound to the request that it received.
func (g *gateway) asserted(t *testing.T, s seen, header string) asserted {
	t.Helper()
	var out asserted
	values := s.values(header)
	if len(values) != 1 {
		t.Fatalf("the upstream got %d assertions in %s, want 1: %s", len(values), header, s.raw)
	}
	payload, err := testKeys().Verify(values[0], keys.TypeAssertion)
	if err != nil {
		t.Fatalf("%s = %q: %v", header, values[0], err)
	}
	if err := json.Unmarshal(payload, &out); err != nil {
		t.Fatal(err)
	}
	path, _, _ := strings.Cut(s.target, "?")
	if want := (assertion.Request{Method: s.method, Host: s.values("Host")[0], Path: path}).Hash(); out.Confirm.Request != want {
		t.Errorf("%s %s: the assertion is bound to another request: cnf = %q, want %q", s.method, s.target, out.Confirm.Request, want)
	}
	return out
}

func TestAssertion(t *testing.T) {
	g := startGateway(t)
	g.fake.set(func() { g.fake.assertions = assertion.New("https://issuer.test", testKeys(), time.Now) })
	origin := g.origin("bound.localhost")

	g.attack(t, "an upstream can verify who passed", func(t *testing.T) {
		for _, line := range []string{"GET /a?x=1", "POST /a%2Fb/%7e", "DELETE //x;y=1", "OPTIONS /", "GET /a//b/../c", "GET /%C3%A4%20"} {
			a := g.raw(t, line+" HTTP/1.1", "Host: BOUND.localhost:"+g.port, "Authorization: Bearer "+g.user)
			got := g.asserted(t, g.passed(t, a), "Remote-Assertion")
			if got.Issuer != "https://issuer.test" || got.Audience != origin || got.Subject != "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" ||
				got.Client != "shop" || got.ACR != "urn:gatehouse:level:1" || len(got.Groups) != 1 || got.Groups[0] != "staff" {
				t.Errorf("%s: assertion = %+v", line, got)
			}
		}
	})
	g.attack(t, "a browser's session is named, the client is not", func(t *testing.T) {
		who := person(2, "staff")
		who.SessionID = "s1"
		cookie := g.session(t, "signed.localhost", who)
		got := g.asserted(t, g.passed(t, g.open(t, "signed.localhost", "/x", "Cookie: "+cookie)), "X-Gate-Token")
		if got.Session != "s1" || got.Client != "" || got.Audience != g.origin("signed.localhost") || got.ACR != "urn:gatehouse:level:2" {
			t.Errorf("assertion = %+v", got)
		}
	})
	g.attack(t, "a client's own token has no groups and no level", func(t *testing.T) {
		own := newToken(t, secret.AccessToken)
		g.fake.set(func() {
			g.fake.tokens[own] = &token.Introspection{Active: true, Subject: "reports", ClientID: "reports"}
		})
		got := g.asserted(t, g.passed(t, g.raw(t, "GET / HTTP/1.1", "Host: bound.localhost:"+g.port, "Authorization: Bearer "+own)),
			"Remote-Assertion")
		if got.Subject != "reports" || got.Client != "reports" || len(got.Groups) > 0 || got.ACR != "" || got.Session != "" {
			t.Errorf("assertion = %+v", got)
		}
	})
	g.attack(t, "an assertion of the client is deleted in every spelling", func(t *testing.T) {
		for _, host := range []string{"bound.localhost", "open.test"} {
			for _, name := range []string{"Remote-Assertion", "REMOTE-ASSERTION", "Remote_Assertion", "remote.assertion", "Remote-assertion"} {
				s := g.passed(t, g.get(t, host+":"+g.port, "/a", name+": forged", "X-Gate-Token: kept"))
				for _, v := range s.values("Remote-Assertion") {
					if v == "forged" {
						t.Errorf("%s: %s of the client arrived: %s", host, name, s.raw)
					}
				}
			}
		}
		cookie := g.session(t, "signed.localhost", person(2))
		s := g.passed(t, g.open(t, "signed.localhost", "/x", "Cookie: "+cookie, "X_Gate_Token: forged", "Remote-Assertion: forged"))
		if strings.Contains(s.raw, "forged") {
			t.Errorf("an assertion of the client arrived: %s", s.raw)
		}
		s = g.passed(t, g.raw(t, "GET /public/x HTTP/1.1", "Host: rebound.localhost:"+g.port, "Remote_Assertion: forged"))
		if len(s.values("Remote-Assertion")) > 0 {
			t.Errorf("a request that nobody has checked arrived with an assertion: %s", s.raw)
		}
		g.refused(t, g.get(t, "bound.localhost:"+g.port, "/a", "Connection: Remote-Assertion"), http.StatusBadRequest)
	})
	g.attack(t, "a Host header of another site gets no assertion", func(t *testing.T) {
		g.refused(t, g.get(t, "bound.localhost:1", "/a"), http.StatusMisdirectedRequest)
	})
	g.attack(t, "a further protect keeps the assertion of the first", func(t *testing.T) {
		g.asserted(t, g.passed(t, g.get(t, "rebound.localhost:"+g.port, "/a")), "Remote-Assertion")
		if s := g.passed(t, g.get(t, "rebound.localhost:"+g.port, "/admin/a")); len(s.values("Remote-Assertion")) > 0 {
			t.Errorf("what the second protect has checked arrived with the assertion of the first: %s", s.raw)
		}
	})
	g.attack(t, "without a signature nothing passes", func(t *testing.T) {
		g.fake.set(func() { g.fake.assertions = broken{} })
		g.refused(t, g.get(t, "bound.localhost:"+g.port, "/b"), http.StatusServiceUnavailable)
		g.fake.set(func() { g.fake.assertions = nil })
		g.refused(t, g.get(t, "bound.localhost:"+g.port, "/c"), http.StatusServiceUnavailable)
	})
}

type broken struct{}

func (broken) Sign(assertion.Statement) (string, error) { return "", errors.New("no key") }

func TestAssertionInCaddyfile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ site, want string }{
		{"wiki.example.com {\n protect {\n assertion\n }\n}", `"assertion":"Remote-Assertion"`},
		{"wiki.example.com {\n protect {\n assertion X-Gate\n }\n}", `"assertion":"X-Gate"`},
		{"wiki.example.com {\n protect {\n assertion ML-DSA-65\n }\n}", `"assertion":"Remote-Assertion","assertion_alg":"ML-DSA-65"`},
		{"wiki.example.com {\n protect {\n assertion X-Gate ML-DSA-44\n }\n}", `"assertion":"X-Gate","assertion_alg":"ML-DSA-44"`},
		{"wiki.example.com {\n protect {\n assertion X-Gate ES256\n }\n}", `"assertion":"X-Gate","assertion_alg":"ES256"`},
		{"wiki.example.com {\n protect {\n assertion X-Gate X-Other\n }\n}", `"X-Other" is no algorithm: want one of ES256, ML-DSA-44`},
		{"wiki.example.com {\n protect {\n assertion X-Gate X-Other ML-DSA-44\n }\n}", `"X-Other" is no algorithm`},
		{"wiki.example.com {\n protect {\n assertion X-Gate X-Other X-Third\n }\n}", "want one header and one algorithm"},
		{"wiki.example.com {\n protect {\n assertion\n assertion\n }\n}", "assertion is already set"},
		{"wiki.example.com {\n protect {\n assertion Cookie\n }\n}", "Cookie already has a meaning in HTTP"},
		{"wiki.example.com {\n protect {\n assertion X-Gate\n headers X_Gate sub\n }\n}", "is not a header name"},
		{"wiki.example.com {\n protect {\n assertion X-Gate\n headers x-gate sub\n }\n}", "is one of headers, too"},
		{":8080 {\n protect {\n assertion\n }\n}", "names no host"},
		{"*.example.com, wiki.example.com {\n protect {\n assertion\n }\n}", "names no host"},
	} {
		out, err := adaptSite(t, tt.site)
		got := out
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s\nadapts to %s, want %s", tt.site, got, tt.want)
		}
	}
}
