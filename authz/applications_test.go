package authz_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

func applications(t *testing.T, h *authztest.Harness, person string) (list []login.Application) {
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

// TestApplications: what a person has given is shown by application, with or without a consent, until it is withdrawn.
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
	if want := []string{"email", "openid", "profile"}; !slices.Equal(scopes, want) || !list[1].Since.Equal(authztest.Start) || !list[1].Last.Equal(authztest.Start.Add(time.Hour)) {
		t.Errorf("the shop has %q since %s, last %s; want %q", scopes, list[1].Since, list[1].Last, want)
	}
	if !list[1].Until.After(list[1].Last) {
		t.Errorf("the tokens of the shop end at %s", list[1].Until)
	}
	if _, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "shop"); err != nil {
		t.Fatal(err)
	}
	if got := applications(t, h, authztest.Demo); len(got) != 1 || got[0].ID != "spa" {
		t.Errorf("after it was withdrawn: %+v", got)
	}
	wantActive(t, h, "a token of the shop", shop.Access, false)
	wantActive(t, h, "a token of another person", guest.Access, true)
	var name string
	err := h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		name, err = h.Server().ApplicationName(tx, "gone")
		return err
	})
	if err != nil || name != "gone" {
		t.Errorf("ApplicationName(gone) = %q, %v, want its id", name, err)
	}
}
