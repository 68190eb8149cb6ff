package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// TestHandedReset: an administrator hands over a link for a new password where people cannot ask for one themselves.
func TestHandedReset(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	admin := event.Actor{ID: "admin", Name: "admin"}
	made, err := h.Enrol.HandReset(t.Context(), demo, false, admin)
	if err != nil || made.Sent || !strings.HasPrefix(made.Link, issuer+"/reset?token=") {
		t.Fatalf("HandReset = %+v, %v", made, err)
	}
	t.Run("attack 537: the page is there for such a link alone", func(t *testing.T) {
		if a := h.browser().get("/reset"); a.Code != http.StatusNotFound {
			t.Errorf("GET /reset without a link = %d, want 404", a.Code)
		}
		if a := h.browser().get("/reset?token=ghml_" + strings.Repeat("a", 43)); a.Code != http.StatusNotFound {
			t.Errorf("GET /reset with a made-up link = %d, want 404", a.Code)
		}
		if a := h.browser().get("/forgot"); a.Code != http.StatusNotFound {
			t.Errorf("GET /forgot = %d, want 404", a.Code)
		}
	})
	b, target := h.browser(), strings.TrimPrefix(made.Link, issuer)
	page := b.get(target)
	if a := b.post(page, "password", "another password 1"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST /reset = %d\n%s", a.Code, a.Body)
	}
	h.browser().signIn(demo, "another password 1")
	t.Run("attack 537: it works once, and ends with a block", func(t *testing.T) {
		if a := h.browser().get(target); a.Code != http.StatusNotFound {
			t.Errorf("the link again = %d, want 404", a.Code)
		}
		next, err := h.Enrol.HandReset(t.Context(), demo, false, admin)
		if err == nil {
			err = h.Person.SetState(t.Context(), demo, person.Blocked, admin)
		}
		if err != nil {
			t.Fatal(err)
		}
		if a := h.browser().get(strings.TrimPrefix(next.Link, issuer)); a.Code != http.StatusNotFound {
			t.Errorf("the link of a blocked person = %d, want 404", a.Code)
		}
		if _, err := h.Enrol.HandReset(t.Context(), demo, false, admin); err == nil {
			t.Error("a blocked person gets a link")
		}
	})
}
