package recovery_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestHandedReset: an administrator hands over a link for a new password where people cannot ask for one themselves.
func TestHandedReset(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	admin := audit.Actor{ID: "admin", Name: "admin"}
	made, err := h.Recovery.HandReset(t.Context(), identitytest.Demo, false, admin)
	if err != nil || made.Sent || !strings.HasPrefix(made.Link, identitytest.Issuer+"/reset?token=") {
		t.Fatalf("HandReset = %+v, %v", made, err)
	}
	t.Run("attack 537: the page is there for such a link alone", func(t *testing.T) {
		if a := h.Browser().Get("/reset"); a.Code != http.StatusNotFound {
			t.Errorf("GET /reset without a link = %d, want 404", a.Code)
		}
		if a := h.Browser().Get("/reset?token=ghml_" + strings.Repeat("a", 43)); a.Code != http.StatusNotFound {
			t.Errorf("GET /reset with a made-up link = %d, want 404", a.Code)
		}
		if a := h.Browser().Get("/forgot"); a.Code != http.StatusNotFound {
			t.Errorf("GET /forgot = %d, want 404", a.Code)
		}
	})
	b, target := h.Browser(), strings.TrimPrefix(made.Link, identitytest.Issuer)
	page := b.Get(target)
	if a := b.Post(page, "password", "another password 1"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST /reset = %d\n%s", a.Code, a.Body)
	}
	h.Browser().SignIn(identitytest.Demo, "another password 1")
	t.Run("attack 537: it works once, and ends with a block", func(t *testing.T) {
		if a := h.Browser().Get(target); a.Code != http.StatusNotFound {
			t.Errorf("the link again = %d, want 404", a.Code)
		}
		next, err := h.Recovery.HandReset(t.Context(), identitytest.Demo, false, admin)
		if err == nil {
			err = h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, admin)
		}
		if err != nil {
			t.Fatal(err)
		}
		if a := h.Browser().Get(strings.TrimPrefix(next.Link, identitytest.Issuer)); a.Code != http.StatusNotFound {
			t.Errorf("the link of a blocked person = %d, want 404", a.Code)
		}
		if _, err := h.Recovery.HandReset(t.Context(), identitytest.Demo, false, admin); err == nil {
			t.Error("a blocked person gets a link")
		}
	})
}
