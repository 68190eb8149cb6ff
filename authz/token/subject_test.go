package token_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestPairwiseSubject holds that a client of subject_type pairwise reads the same identifier of a person everywhere,
// and clients of other hosts read another one. (OpenID Connect Core 8.1)
func TestPairwiseSubject(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithClients(authztest.PairwiseClient("pair", "p.example.com"),
		authztest.PairwiseClient("same", "p.example.com"), authztest.PairwiseClient("else", "q.example.com")))
	subjects := map[string]string{}
	for _, client := range []string{"pair", "same", "else"} {
		tokens := h.Tokens(client, authztest.Demo)
		sub, _ := authztest.IDClaimsFor(t, h, tokens.ID, client)["sub"].(string)
		if len(sub) < 40 || strings.Contains(sub, authztest.Demo) {
			t.Errorf("sub for %s = %q, want one that says nothing", client, sub)
		}
		subjects[client] = sub
		refreshed := h.Refresh(client, tokens.Refresh)
		for what, got := range map[string]any{
			"ID token after a refresh":       authztest.IDClaimsFor(t, h, refreshed.Text("id_token"), client)["sub"],
			"userinfo":                       h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access).Text("sub"),
			"introspection":                  h.Introspect(tokens.Access).Text("sub"),
			"introspection of refresh token": h.Introspect(refreshed.Text("refresh_token")).Text("sub"),
		} {
			if got != sub {
				t.Errorf("%s of %s says sub = %v, want %q", what, client, got, sub)
			}
		}
		for what, res := range map[string]*authztest.Response{
			"introspection": h.Introspect(tokens.Access),
			"userinfo":      h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access),
		} {
			if strings.Contains(res.Body, authztest.Demo) {
				t.Errorf("%s of %s shows the public identifier: %s", what, client, res.Body)
			}
		}
		in, err := h.Server().Introspect(t.Context(), tokens.Access)
		if err != nil || in.Subject != authztest.Demo {
			t.Errorf("protect reads %q, %v, want the public identifier", in.Subject, err)
		}
		if own := h.Introspect(h.Token(client,
			url.Values{"grant_type": {"client_credentials"}, "scope": {"profile"}}).Text("access_token")).Text("sub"); own != client {
			t.Errorf("a token of %s itself has sub %q, want the client", client, own)
		}
	}
	if subjects["pair"] != subjects["same"] || subjects["pair"] == subjects["else"] {
		t.Errorf("subjects %v, want one for each host", subjects)
	}
	h.Restart(nil)
	if again := authztest.IDClaimsFor(t, h, h.Tokens("pair", authztest.Demo).ID, "pair")["sub"]; again != subjects["pair"] {
		t.Errorf("after a restart sub = %v, want %q", again, subjects["pair"])
	}
	if guest := authztest.IDClaimsFor(t, h, h.Tokens("pair", authztest.Guest).ID, "pair")["sub"]; guest == subjects["pair"] {
		t.Error("two persons have one pairwise subject")
	}
	h.Invariants(t)
}

// TestPairwiseHints holds that hints are read as they were written: in the sector of the client that got the ID token.
func TestPairwiseHints(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithClients(authztest.PairwiseClient("pair", "p.example.com")))
	b := h.Browser(authztest.Demo)
	own, guest := b.Tokens("pair").ID, h.Tokens("pair", authztest.Guest).ID
	public := b.Tokens("shop").ID
	sub, _ := authztest.IDClaimsFor(t, h, own, "pair")["sub"].(string)
	for _, c := range []struct {
		name, client string
		with         []string
		want         string
	}{
		{"its own", "pair", []string{"id_token_hint", own}, ""},
		{"of another client", "shop", []string{"id_token_hint", own}, ""},
		{"a public one", "pair", []string{"id_token_hint", public}, ""},
		{"of another person", "pair", []string{"id_token_hint", guest}, "login_required"},
		{"sub in claims", "pair", []string{"claims", `{"id_token":{"sub":{"value":"` + sub + `"}}}`}, ""},
		{"public sub in claims", "pair", []string{"claims", `{"id_token":{"sub":{"value":"` + authztest.Demo + `"}}}`}, "login_required"},
		{"pairwise sub of another sector", "shop", []string{"claims", `{"id_token":{"sub":{"value":"` + sub + `"}}}`}, "login_required"},
		{"hint and claims", "pair", []string{"id_token_hint", own, "claims", `{"id_token":{"sub":{"value":"` + sub + `"}}}`}, ""},
		{
			"hint against claims", "pair",
			[]string{"id_token_hint", guest, "claims", `{"id_token":{"sub":{"value":"` + sub + `"}}}`},
			"invalid_request",
		},
	} {
		_, params := b.Authorize(c.client, append(c.with, "prompt", "none")...).Redirect()
		if params.Get("error") != c.want {
			t.Errorf("%s: %v, want error %q", c.name, params, c.want)
		}
	}
	// A hint of another person leads to a question; the person's own hint signs out at once.
	if res := b.Get("/oauth/logout?id_token_hint=" + guest); res.Status != http.StatusOK || b.Session() == "" {
		t.Errorf("logout with another's hint = %d, want a question", res.Status)
	}
	res := b.Get("/oauth/logout?post_logout_redirect_uri=https%3A%2F%2Fp.example.com%2F&id_token_hint=" + own)
	if res.Location() != "https://p.example.com/" {
		t.Errorf("logout = %d %q, want to be led back", res.Status, res.Location())
	}
	h.Invariants(t)
}

func TestPairwiseValidate(t *testing.T) {
	t.Parallel()
	two := authztest.PairwiseClient("pair", "p.example.com")
	two.RedirectURIs = append(two.RedirectURIs, "https://q.example.com/cb")
	none := authztest.PairwiseClient("pair", "p.example.com")
	none.RedirectURIs, none.Grants = nil, []string{"client_credentials"}
	unknown := authztest.PairwiseClient("pair", "p.example.com")
	unknown.SubjectType = "pair"
	for name, c := range map[string]struct {
		client *client.Client
		want   string
	}{
		"two hosts": {two, "of one host"}, "no redirect URI": {none, "needs redirect_uris"}, "unknown": {unknown, "not one of public, pairwise"},
	} {
		if err := c.client.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Validate = %v, want %q", name, err, c.want)
		}
	}
}

// TestPairwiseKeyOutlivesEncryptionKeys holds that pairwise subjects stay when the encryption key is replaced.
func TestPairwiseKeyOutlivesEncryptionKeys(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	first, second := bytes.Repeat([]byte{1}, secret.KeySize), bytes.Repeat([]byte{2}, secret.KeySize)
	subject := func(keys ...[]byte) (string, error) {
		ring, err := secret.NewKeyring(keys...)
		if err != nil {
			t.Fatal(err)
		}
		l, err := token.New(t.Context(), "https://id.example.com", token.Deps{Store: store, Keyring: ring, Random: rand.Reader})
		if err != nil {
			return "", err
		}
		return l.SubjectIn("p.example.com", "ann"), nil
	}
	was, err := subject(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := subject(second); err == nil {
		t.Error("opened by an encryption key that did not seal it")
	}
	for _, tt := range []struct {
		name string
		keys [][]byte
	}{
		{"the same", [][]byte{first}},
		{"both", [][]byte{second, first}},
		{"the old one alone", [][]byte{first}},
		{"the new one alone", [][]byte{second}},
	} {
		if is, err := subject(tt.keys...); err != nil || is != was {
			t.Errorf("%s: %v, the subject is %q, want %q", tt.name, err, is, was)
		}
	}
}
