package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

func TestInvitations(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	const path = "/api/persons/invitations"
	guest := map[string]any{
		"email": "guest@example.com", "name": "Gail Guest", "date_of_birth": "1990-12-31", "phone_numbers": []string{"+31612345678"},
		"groups": []string{"guests"}, "locale": "nl",
	}
	if a := h.call(http.MethodPost, path, guest); a.status() != http.StatusConflict {
		t.Errorf("an invitation, switched off = %d %s, want 409", a.status(), a.Body)
	}
	h.set(func(u *settings.Units) { u.Features.AcceptingInvitationEnabled = true })
	a := h.call(http.MethodPost, path, guest)
	var made invitation.Invitation
	if err := json.Unmarshal(a.Body.Bytes(), &made); err != nil || a.status() != http.StatusCreated {
		t.Fatalf("an invitation = %d %s", a.status(), a.Body)
	}
	if made.Username != "guest@example.com" || made.Sent || !strings.HasPrefix(made.Link, issuer+"/invitation?token=") ||
		!made.ExpiresAt.Equal(h.clock.Now().Add(7*24*time.Hour)) {
		t.Errorf("an invitation without mail = %+v, want a link to hand over", made)
	}
	p, err := h.persons.Person.Person(t.Context(), made.PersonID)
	if err != nil || p.State != person.Invited || p.Name != "Gail Guest" || p.EmailVerified {
		t.Errorf("Person = %+v, %v, want an invited person with an unverified address", p, err)
	}
	again := "/api/persons/" + made.PersonID + "/invitation"
	if a := h.call(http.MethodPost, again, map[string]any{}); a.status() != http.StatusTooManyRequests ||
		a.Header().Get("Retry-After") != "60" {
		t.Errorf("attack 267: again at once = %d, Retry-After %q, want 429 and a minute", a.status(), a.Header().Get("Retry-After"))
	}
	h.clock.Advance(time.Minute)
	if a := h.call(http.MethodPost, again, map[string]any{}); a.status() != http.StatusCreated ||
		strings.Contains(a.Body.String(), made.Link) {
		t.Errorf("again = %d %s, want 201 with another link", a.status(), a.Body)
	}
	for _, c := range []struct {
		name, method, path string
		body               any
		want               int
	}{
		{"no address", http.MethodPost, path, map[string]any{"name": "Nobody"}, http.StatusBadRequest},
		{"attack 239: two addresses", http.MethodPost, path, map[string]any{"email": "a@example.com, b@example.com"}, http.StatusBadRequest},
		{"attack 239: a list of addresses", http.MethodPost, path, map[string]any{"email": []string{"a@example.com"}}, http.StatusBadRequest},
		{"attack 239: a header", http.MethodPost, path, map[string]any{"email": "a@example.com\r\nBcc: b@example.com"}, http.StatusBadRequest},
		{
			"attack 241: verified by the client", http.MethodPost, path,
			map[string]any{"email": "a@example.com", "email_verified": true},
			http.StatusBadRequest,
		},
		{
			"attack 248: a state of one's own", http.MethodPost, path,
			map[string]any{"email": "a@example.com", "state": "ACTIVE"},
			http.StatusBadRequest,
		},
		{"a name that is taken", http.MethodPost, path, guest, http.StatusConflict},
		{
			"an unknown id, again", http.MethodPost, "/api/persons/9b2f4a52-1f6e-4f0c-9c6d-0a2f5b7c8d9e/invitation",
			map[string]any{},
			http.StatusNotFound,
		},
		{"a username for the id, again", http.MethodPost, "/api/persons/guest@example.com/invitation", map[string]any{}, http.StatusNotFound},
		{"an unknown id, withdrawn", http.MethodDelete, "/api/persons/9b2f4a52-1f6e-4f0c-9c6d-0a2f5b7c8d9e/invitation", nil, http.StatusNotFound},
		{"by GET", http.MethodGet, path, nil, http.StatusMethodNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := h.call(c.method, c.path, c.body); a.status() != c.want {
				t.Errorf("%s %s = %d %s, want %d", c.method, c.path, a.status(), a.Body, c.want)
			}
		})
	}
	other, err := h.persons.Person.Person(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	if a := h.call(http.MethodDelete, "/api/persons/"+other.ID+"/invitation", nil); a.status() != http.StatusConflict {
		t.Errorf("withdrawing who is there already = %d, want 409", a.status())
	}
	if a := h.call(http.MethodDelete, again, nil); a.status() != http.StatusNoContent {
		t.Errorf("withdrawing = %d %s, want 204", a.status(), a.Body)
	}
	if a := h.call(http.MethodPost, again, map[string]any{}); a.status() != http.StatusNotFound {
		t.Errorf("again, once it is withdrawn = %d, want 404", a.status())
	}
	h.set(func(u *settings.Units) { u.Features.PersonAPIEnabled = false })
	if a := h.call(http.MethodPost, path, map[string]any{"email": "a@example.com"}); a.status() != http.StatusServiceUnavailable {
		t.Errorf("while the API is off = %d, want 503", a.status())
	}
}
