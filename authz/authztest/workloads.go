package authztest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ExchangeGrant is the grant type of token exchange (RFC 8693).
const ExchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"

// TokenType begins the names of token types (RFC 8693 3).
const TokenType = "urn:ietf:params:oauth:token-type:" //nolint:gosec // a name, no credentials

// StockAPI is an audience of exchanged tokens.
const StockAPI = "https://stock.example.com"

// LedgerAPI is another audience of exchanged tokens.
const LedgerAPI = "https://ledger.example.com"

// WithExchangers are an API that exchanges the tokens of a shop, one that exchanges those of the API, and one that must
// not.
func WithExchangers() Option {
	of := func(id string, from []string, to ...string) *client.Client {
		return &client.Client{
			ID: id, Secrets: []secret.String{secret.New(Secret(id))}, Grants: []string{"token_exchange", "client_credentials"},
			Scopes: []string{"openid", "orders.read", "orders.write", "secure.read"}, Exchange: &client.Exchange{From: from, To: to},
		}
	}
	return WithClients(
		of("api", []string{"shop", "jwt", "reports", "warehouse"}, StockAPI, LedgerAPI), of("warehouse", []string{"api"}, LedgerAPI),
		of("ledger", []string{"warehouse", "api"}, LedgerAPI), of("stranger", []string{"other"}, StockAPI),
	)
}

// ExchangeForm returns the form that exchanges an access token.
func ExchangeForm(token string, more ...string) url.Values {
	f := url.Values{
		"grant_type": {ExchangeGrant}, "subject_token": {token}, "subject_token_type": {TokenType + "access_token"},
		"audience": {StockAPI},
	}
	for i := 0; i+1 < len(more); i += 2 {
		if f.Set(more[i], more[i+1]); more[i+1] == "" {
			f.Del(more[i])
		}
	}
	return f
}

// Exchanged exchanges a token or fails the test.
func Exchanged(t *testing.T, h *Harness, by, token string, more ...string) string {
	t.Helper()
	res := h.Token(by, ExchangeForm(token, more...))
	if res.Status != http.StatusOK || res.Text("access_token") == "" {
		t.Fatalf("exchange by %s = %d %s; log: %s", by, res.Status, res.Body, h.Log())
	}
	return res.Text("access_token")
}

// IDJAGType is the typ of an identity assertion.
const IDJAGType = "oauth-id-jag+jwt"

// About is an identity assertion about u1 for the client wiki.
func (b *BuildServer) About(h *Harness, changes ...any) map[string]any {
	return b.Job(h, append([]any{
		"sub", "u1", "client_id", "wiki", "scope", "chat.read chat.write orders.read", "resource",
		"https://tools.example.com", "repository", nil,
	}, changes...)...)
}

// JWTBearer is the grant type of assertions (RFC 7523).
const JWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // a name, no credentials

// BuildServer is an issuer elsewhere that gives its jobs tokens, as GitHub Actions do.
type BuildServer struct {
	*Signer

	URL     string
	Fetches atomic.Int64
	JwksURI atomic.Pointer[string] // in place of its own
}

// NewBuildServer starts an issuer that signs with this algorithm.
func NewBuildServer(t testing.TB, alg jose.SignatureAlgorithm) *BuildServer {
	t.Helper()
	b := &BuildServer{Signer: NewSigner(t, "builds", alg)}
	set, err := json.Marshal(b.Set())
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.Fetches.Add(1)
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			uri := b.URL + "/keys"
			if other := b.JwksURI.Load(); other != nil {
				uri = *other
			}
			json.NewEncoder(w).Encode(map[string]string{"issuer": b.URL, "jwks_uri": uri}) //nolint:errcheck,errchkjson // the test sees it
		case "/keys":
			w.Write(set)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	b.URL = web.URL
	return b
}

// Job are the claims of the token of a job on the branch main.
func (b *BuildServer) Job(h *Harness, changes ...any) map[string]any {
	now := h.Clock.Now().Unix()
	c := b.Claims(h)
	c["iss"], c["sub"], c["exp"], c["repository"] = b.URL, "repo:example/app:ref:refs/heads/main", now+300, "example/app"
	for i := 0; i+1 < len(changes); i += 2 {
		name, _ := changes[i].(string)
		if c[name] = changes[i+1]; changes[i+1] == nil {
			delete(c, name)
		}
	}
	return c
}

// WithDeployment is a client whose jobs have no secret, and the rule that lets them in.
func WithDeployment(b *BuildServer) Option {
	return WithConfig(func(c *authz.Config) {
		c.Clients = append(c.Clients, &client.Client{
			ID: "deploy", AuthMethod: "workload", Grants: []string{"jwt_bearer", "client_credentials"},
			Scopes:    []string{"deploy.read", "deploy.write", "orders.read", "secure.read"},
			Audiences: []string{"https://deploy.example.com"},
		})
		c.Trusted = []workload.Rule{{
			Issuer: b.URL, Client: "deploy", Scopes: []string{"deploy.read", "deploy.write", "secure.read"},
			Match: []workload.Match{
				{Claim: "sub", Patterns: []string{"repo:example/app:ref:refs/heads/main", "repo:example/app:environment:*"}},
				{Claim: "repository", Patterns: []string{"example/app"}},
			},
		}}
	})
}

// JobForm returns the form of a job that asks for a token.
func JobForm(raw string, more ...string) url.Values {
	f := url.Values{"grant_type": {JWTBearer}, "assertion": {raw}, "scope": {"deploy.write"}}
	for i := 0; i+1 < len(more); i += 2 {
		if f.Set(more[i], more[i+1]); more[i+1] == "" {
			f.Del(more[i])
		}
	}
	return f
}

// Texts returns the strings of a list.
func Texts(list []any) (out []string) {
	for _, v := range list {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// WantReason looks for an event of a type with a reason.
func WantReason(t *testing.T, h *Harness, kind, reason string) {
	t.Helper()
	var seen []string
	err := h.Store.View(t.Context(), func(tx storage.Tx) error {
		seen = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			if e.Type == kind {
				seen = append(seen, e.Reason)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen {
		if strings.Contains(s, reason) {
			return
		}
	}
	t.Errorf("no event %s says %q: %q", kind, reason, seen)
}
