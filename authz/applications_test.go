package authz_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

func applications(t *testing.T, h *authztest.Harness, person string) (list []authn.Application) {
	t.Helper()
	err := h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		list, err = h.Server().Applications(tx, person, h.Clock.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestApplications holds that the access that a person has given is listed by application, with or without a consent,
// until it is withdrawn.
func TestApplications(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	if got := applications(t, h, authztest.Demo); len(got) != 0 {
		t.Errorf("of nobody: %+v", got)
	}
	shop := h.Tokens("shop", authztest.Demo, "scope", "openid profile")
	h.Clock.Advance(time.Hour)
	h.Tokens("shop", authztest.Demo, "scope", "openid email")
	h.Tokens("spa", authztest.Demo)
	guest := h.Tokens("shop", authztest.Guest)
	list := applications(t, h, authztest.Demo)
	if len(list) != 2 || list[0].ID != "spa" || list[1].Name != "The shop" || list[1].Owner != "shop.example.com" {
		t.Fatalf("applications = %+v", list)
	}
	var scopes []string
	for _, s := range list[1].Scopes {
		scopes = append(scopes, s.Name)
	}
	slices.Sort(scopes)
	if want := []string{"email", "openid", "profile"}; !slices.Equal(scopes, want) || !list[1].Since.Equal(authztest.Start) ||
		!list[1].Last.Equal(authztest.Start.Add(time.Hour)) {
		t.Errorf("the shop has %q since %s, last %s; want %q", scopes, list[1].Since, list[1].Last, want)
	}
	if !list[1].Until.After(list[1].Last) {
		t.Errorf("the tokens of the shop end at %s", list[1].Until)
	}
	if _, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "shop", authztest.Admin); err != nil {
		t.Fatal(err)
	}
	if got := applications(t, h, authztest.Demo); len(got) != 1 || got[0].ID != "spa" {
		t.Errorf("after it was withdrawn: %+v", got)
	}
	authztest.WantActive(t, h, "a token of the shop", shop.Access, false)
	authztest.WantActive(t, h, "a token of another person", guest.Access, true)
	var name string
	err := h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		name, err = h.Server().ApplicationName(tx, "gone")
		return err
	})
	if err != nil || name != "gone" {
		t.Errorf("ApplicationName(gone) = %q, %v, want its id", name, err)
	}
}

// TestUnlinked holds that each kind of withdrawal calls Unlinked once, with the subject that the client knows.
func TestUnlinked(t *testing.T) {
	t.Parallel()
	var fails error
	notes := storagetest.NewNotes[authn.Unlinked]("unlinked")
	h := authztest.New(t, authztest.WithClients(authztest.PairwiseClient("pair", "p.example.com")),
		authztest.WithUnlinked(func(tx storage.Tx, u authn.Unlinked) error {
			return errors.Join(fails, notes.Add(tx, u))
		}))
	wants := func(what string, want ...authn.Unlinked) {
		t.Helper()
		for i := range want {
			want[i].Person, want[i].At = authztest.Demo, h.Clock.Now()
		}
		told := notes.Take(t, h.Store)
		for i := range told {
			told[i].At = told[i].At.UTC()
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %+v, want %+v", what, told, want)
		}
	}
	withdraw := func(client string) error {
		_, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, client, authztest.Admin)
		return err
	}
	if err := withdraw("shop"); err != nil {
		t.Fatal(err)
	}
	wants("nothing was given")
	h.Tokens("shop", authztest.Demo)
	if err := withdraw("shop"); err != nil {
		t.Fatal(err)
	}
	wants("a grant", authn.Unlinked{Subject: authztest.Demo, ClientID: "shop", Client: "The shop"})
	if err := withdraw("shop"); err != nil {
		t.Fatal(err)
	}
	wants("a second time")
	sub, _ := authztest.IDClaimsFor(t, h, h.Tokens("pair", authztest.Demo).ID, "pair")["sub"].(string)
	if err := withdraw("pair"); err != nil {
		t.Fatal(err)
	}
	wants("a pairwise client", authn.Unlinked{Subject: sub, ClientID: "pair", Client: "pair"})
	path := authztest.Demo + "/consents"
	h.Tokens("asks", authztest.Demo, "scope", "openid profile")
	authztest.WantStatus(t, "DELETE of a consent", authztest.AsRegistrar(h, http.MethodDelete, path+"/asks"), 204)
	wants("by the API", authn.Unlinked{Subject: authztest.Demo, ClientID: "asks", Client: "The asks"})
	authztest.WantStatus(t, "DELETE of none", authztest.AsRegistrar(h, http.MethodDelete, path), 204)
	wants("none by the API")
	token := h.Tokens("asks", authztest.Demo, "scope", "openid profile").Access
	fails = errors.New("the outbox is full")
	if err := withdraw("asks"); !errors.Is(err, fails) {
		t.Errorf("WithdrawConsent = %v, want %v", err, fails)
	}
	authztest.WantActive(t, h, "a token of what could not be withdrawn", token, true)
	fails = nil
	h.Restart(func(c *authz.Config) {
		c.Clients = slices.DeleteFunc(c.Clients, func(c *client.Client) bool { return c.ID == "asks" })
	})
	if err := withdraw("asks"); err != nil {
		t.Fatal(err)
	}
	wants("a client that is gone")
	h.Invariants(t)
}
