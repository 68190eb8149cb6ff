package protect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// transacted reads the one transaction token that an upstream got.
func (g *gateway) transacted(t *testing.T, s seen, header string) (c transaction.Claims, about transaction.Request) {
	t.Helper()
	values := s.values(header)
	if len(values) != 1 {
		t.Fatalf("the upstream got %d transaction tokens in %s, want 1: %s", len(values), header, s.raw)
	}
	payload, err := testKeys().Verify(values[0], keys.TypeTransaction)
	if err != nil {
		t.Fatalf("%s = %q: %v", header, values[0], err)
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(c.Details, &about); err != nil {
		t.Fatal(err)
	}
	return c, about
}

func TestTransactionToken(t *testing.T) {
	g := startGateway(t)
	g.fake.set(func() { g.fake.transacts = transaction.New("https://issuer.test", testKeys(), nil, nil) })
	const demo = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

	g.attack(t, "a request begins a transaction", func(t *testing.T) {
		ids := map[string]bool{}
		for range 2 {
			s := g.passed(t, g.raw(t, "POST /a%2Fb?x=1 HTTP/1.1", "Host: TXN.localhost:"+g.port, "Authorization: Bearer "+g.user))
			c, about := g.transacted(t, s, "Txn-Token")
			ids[c.ID] = true
			if c.Issuer != "https://issuer.test" || c.Audience != "shop.example.com" || c.Subject != demo || c.Scope != "a b" ||
				c.Workload != g.origin("txn.localhost") || c.Before != nil || c.Expires-c.IssuedAt != 60 || len(c.ID) < 22 {
				t.Errorf("token = %+v", c)
			}
			if want := (transaction.Requester{Address: "127.0.0.1", ACR: "urn:gatehouse:level:1", Client: "shop"}); c.Requester != want {
				t.Errorf("rctx = %+v, want %+v", c.Requester, want)
			}
			if about.Method != "POST" || about.Host != "txn.localhost:"+g.port || about.Path != "/a%2Fb" || about.Details != nil {
				t.Errorf("tctx = %s", c.Details)
			}
		}
		if len(ids) != 2 {
			t.Errorf("two requests are the transactions %v", ids)
		}
	})
	g.attack(t, "a transaction has the authorization details of the token", func(t *testing.T) {
		detailed := newToken(t, secret.AccessToken)
		who := person(1)
		who.Scope, who.AuthorizationDetails = []string{"openid", "profile", "a"}, `[{"type":"payment","amount":"17"}]`
		g.fake.set(func() { g.fake.tokens[detailed] = who })
		a := g.raw(t, "GET / HTTP/1.1", "Host: txn.localhost:"+g.port, "Authorization: Bearer "+detailed)
		c, about := g.transacted(t, g.passed(t, a), "Txn-Token")
		if string(about.Details) != who.AuthorizationDetails || c.Scope != "a" {
			t.Errorf("details = %s, scope = %q", about.Details, c.Scope)
		}
	})
	g.attack(t, "a browser has the scopes whose level it has reached", func(t *testing.T) {
		for level, want := range map[int]string{2: "a", 3: "a strong"} {
			cookie := g.session(t, "begin.localhost", person(level))
			c, about := g.transacted(t, g.passed(t, g.open(t, "begin.localhost", "/x", "Cookie: "+cookie)), "X-Txn")
			if c.Scope != want || c.Requester.Client != "" || c.Requester.ACR != fmt.Sprintf("urn:gatehouse:level:%d", level) || about.Path != "/x" {
				t.Errorf("at level %d: %+v", level, c)
			}
		}
	})
	g.attack(t, "a client's own token has no level", func(t *testing.T) {
		own := newToken(t, secret.AccessToken)
		g.fake.set(func() {
			g.fake.tokens[own] = &token.Introspection{Active: true, Subject: "reports", ClientID: "reports", Scope: []string{"b"}}
		})
		c, _ := g.transacted(t, g.passed(t, g.raw(t, "GET / HTTP/1.1", "Host: txn.localhost:"+g.port, "Authorization: Bearer "+own)), "Txn-Token")
		if c.Subject != "reports" || c.Requester.Client != "reports" || c.Requester.ACR != "" || c.Scope != "b" {
			t.Errorf("token = %+v", c)
		}
	})
	g.attack(t, "attack 3158: a transaction token that the client sends, at another host, or that cannot be signed", func(t *testing.T) {
		for _, name := range []string{"Txn-Token", "TXN-TOKEN", "Txn_Token", "txn.token"} {
			s := g.passed(t, g.get(t, "txn.localhost:"+g.port, "/a", name+": forged"))
			g.transacted(t, s, "Txn-Token")
			if strings.Contains(s.raw, "forged") {
				t.Errorf("%s of the client arrived: %s", name, s.raw)
			}
		}
		g.refused(t, g.get(t, "txn.localhost:1", "/a"), http.StatusMisdirectedRequest)
		g.fake.set(func() { g.fake.transacts = mute{} })
		g.refused(t, g.get(t, "txn.localhost:"+g.port, "/a"), http.StatusServiceUnavailable)
		g.fake.set(func() { g.fake.transacts = nil })
		g.refused(t, g.get(t, "txn.localhost:"+g.port, "/a"), http.StatusServiceUnavailable)
	})
}

type mute struct{}

func (mute) Begin(transaction.Claims, string, time.Time) (transaction.Token, error) {
	return transaction.Token{}, errors.New("no key")
}

func TestTransactionTokenInCaddyfile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ assertion, want string }{
		{
			"assertion txn_token {\n domain shop.example.com\n }",
			`"transaction_token":{"domain":"shop.example.com"}`,
		},
		{
			"assertion txn_token X-Txn ML-DSA-44 {\n domain https://shop.example.com\n scopes a b\n }",
			`"transaction_token":{"domain":"https://shop.example.com","scopes":["a","b"]}`,
		},
		{"assertion txn_token", "domain is missing"},
		{"assertion txn_token {\n scopes a\n }", "domain is missing"},
		{"assertion txn_token {\n domain \"a b\"\n }", "is not the name of a trust domain"},
		{"assertion txn_token {\n domain a\n domain b\n }", "domain is already set"},
		{"assertion txn_token {\n audience a\n }", `unrecognized subdirective "audience"`},
		{"assertion txn_token X-Txn X-Other {\n domain a\n }", `"X-Other" is no algorithm`},
		{"assertion txn_token Cookie {\n domain a\n }", "Cookie already has a meaning in HTTP"},
		{"assertion txn_token {\n domain a\n }\n headers Txn-Token sub", "is one of headers, too"},
		{"assertion {\n domain a\n }", "assertion"},
	} {
		out, err := adaptSite(t, "wiki.example.com {\n protect {\n "+tt.assertion+"\n }\n}")
		if err != nil {
			out = err.Error()
		}
		if !strings.Contains(out, tt.want) {
			t.Errorf("%s\nadapts to %s, want %s", tt.assertion, out, tt.want)
		}
	}
}
