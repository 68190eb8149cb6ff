package authz_test

import (
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// A browser that a proxy in front vouches for gets its code in the transaction that signs it in: one commit before the
// answer, not two. Where the person has to be asked, or is not the one that the client means, there is no such code.
func TestCodeIsStoredWithTheSignIn(t *testing.T) {
	t.Parallel()
	disk, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	store := &authztest.CountingStore{Store: disk}
	h := authztest.New(t, authztest.WithStore(store))
	guest := h.Tokens("shop", authztest.Guest)
	h.People.Vouch(authztest.Demo)

	b := h.Browser("")
	var code string
	work := store.Work(func() {
		_, params := b.Get(h.AuthorizeURL("shop")).Redirect()
		code = params.Get("code")
	})
	if code == "" || work[0] != 0 || work[1] != 1 {
		t.Fatalf("code %q after %d views and %d updates, want a code after one update alone", code, work[0], work[1])
	}
	first := h.Redeem("shop", code)
	if first.Status != 200 || !h.Active(first.Text("access_token")) {
		t.Errorf("Redeem = %d %s, want tokens", first.Status, first.Body)
	}
	// The next code comes without a sign-in.
	if _, params := b.Get(h.AuthorizeURL("shop")).Redirect(); params.Get("code") == "" || params.Get("code") == code {
		t.Errorf("the second request gives %v, want another code", params)
	}
	if again := h.Redeem("shop", code); again.Text("error") != "invalid_grant" {
		t.Errorf("Redeem again = %d %s, want invalid_grant", again.Status, again.Body)
	}
	if res := h.Browser("").Get(h.AuthorizeURL("shop", "prompt", "none", "id_token_hint", guest.ID)); res.Location() == "" {
		t.Errorf("with the hint of another person = %d", res.Status)
	} else if _, params := res.Redirect(); params.Get("error") != "login_required" || params.Has("code") {
		t.Errorf("with the hint of another person = %v, want login_required", params)
	}
	if _, params := h.Browser("").Get(h.AuthorizeURL("shop", "prompt", "none consent")).Redirect(); params.Has("code") {
		t.Errorf("a person who has to be asked: %v, want no code", params)
	}
	h.Invariants(t)
}

// A pushed request is good once, with a sign-in in between or along with it.
func TestPushedRequestIsSpentWithTheSignIn(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.People.Vouch(authztest.Demo)
	pushed := h.Call("/oauth/par", "shop", h.Params("shop")).Text("request_uri")
	target := "/oauth/authorize?" + url.Values{"client_id": {"shop"}, "request_uri": {pushed}}.Encode()
	if _, params := h.Browser("").Get(target).Redirect(); params.Get("code") == "" {
		t.Fatalf("the first use gives %v, want a code", params)
	}
	if res := h.Browser("").Get(target); res.Status != 400 && res.Status != 302 {
		t.Errorf("the second use = %d", res.Status)
	} else if res.Status == 302 {
		if _, params := res.Redirect(); params.Has("code") {
			t.Errorf("the second use gives %v, want no code", params)
		}
	}
}
