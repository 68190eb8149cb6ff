package authztest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// Party is a relying party that takes logout tokens.
type Party struct {
	URL string

	Mu     sync.Mutex // guards all below
	forms  []url.Values
	Status int
	Held   chan struct{} // not nil: answers wait for it
}

// NewParty starts a relying party.
func NewParty(t *testing.T) *Party {
	t.Helper()
	p := &Party{Status: http.StatusOK}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	p.URL = web.URL
	return p
}

// ServeHTTP takes a logout token.
func (p *Party) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ParseForm() != nil || r.URL.Path != "/logout" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.Mu.Lock()
	p.forms = append(p.forms, r.PostForm)
	status, held := p.Status, p.Held
	p.Mu.Unlock()
	if held != nil {
		<-held
	}
	w.WriteHeader(status)
}

// Taken returns the logout tokens since the last call.
func (p *Party) Taken() (tokens []string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, f := range p.forms {
		tokens = append(tokens, f.Get("logout_token"))
	}
	p.forms = nil
	return tokens
}

// Hears returns a client that is notified of logouts at the party.
func (p *Party) Hears(id string) *client.Client {
	c := PairwiseClient(id, id+".example.com")
	c.SubjectType, c.BackchannelLogoutURI = "", p.URL+"/logout"
	return c
}

// LogoutToken verifies a logout token as a relying party does (Back-Channel Logout 2.6) and returns its claims.
func LogoutToken(t *testing.T, h *Harness, raw string) map[string]any {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		t.Fatalf("logout token %q: %v", raw, err)
	}
	header := parsed.Signatures[0].Header
	var set jwa.KeySet
	if err := json.Unmarshal([]byte(h.Get("/oauth/jwks").Body), &set); err != nil {
		t.Fatal(err)
	}
	keys := set.Key(header.KeyID)
	if len(keys) != 1 || header.ExtraHeaders[jose.HeaderType] != "logout+jwt" {
		t.Fatalf("logout token has header %v, want a published key and logout+jwt", header)
	}
	payload, err := parsed.Verify(jwa.Verifier(keys[0].Key))
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// SendLogouts sends the logout tokens that are due.
func SendLogouts(t *testing.T, h *Harness) {
	t.Helper()
	if err := h.Server().CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// SignedIn reports whether the browser is still signed in, as a client sees it.
func SignedIn(b *Browser) bool {
	_, params := b.Authorize("shop", "prompt", "none").Redirect()
	return params.Get("code") != ""
}
