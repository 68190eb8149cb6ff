package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

func TestMakeCode(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	demoPerson, err := h.persons.Person.Person(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/persons/" + demoPerson.ID + "/codes"
	body := map[string]string{"for": "step-up"}
	if a := h.call(http.MethodPost, path, body); a.status() != http.StatusConflict {
		t.Errorf("a code, switched off = %d %s", a.status(), a.Body)
	}
	h.set(func(u *settings.Units) { u.Features.ExternallyDeliveredCodeStepUp.Enabled = true })
	a := h.call(http.MethodPost, path, body)
	var made challenge.DeliveredCode
	if err := json.Unmarshal(a.Body.Bytes(), &made); err != nil || a.status() != http.StatusCreated || len(made.Code) != 9 ||
		!made.ExpiresAt.Equal(h.clock.Now().Add(10*time.Minute)) {
		t.Errorf("a code = %d %s", a.status(), a.Body)
	}
	for _, c := range []struct {
		name, path string
		body       any
		want       int
	}{
		{"a username in place of the id", "/api/persons/" + demo + "/codes", body, http.StatusNotFound},
		{"an unknown id", "/api/persons/9b2f4a52-1f6e-4f0c-9c6d-0a2f5b7c8d9e/codes", body, http.StatusNotFound},
		{"for nothing", path, map[string]string{}, http.StatusBadRequest},
		{"for anything", path, map[string]string{"for": "anything"}, http.StatusBadRequest},
		{"with a code of one's own", path, map[string]string{"for": "step-up", "code": "AAAAAAAA"}, http.StatusBadRequest},
	} {
		if a := h.call(http.MethodPost, c.path, c.body); a.status() != c.want {
			t.Errorf("%s = %d %s, want %d", c.name, a.status(), a.Body, c.want)
		}
	}
	if err := h.persons.Person.SetState(t.Context(), demo, person.Blocked, audit.Actor{ID: "admin"}); err != nil {
		t.Fatal(err)
	}
	if a := h.call(http.MethodPost, path, body); a.status() != http.StatusConflict {
		t.Errorf("a code for who is blocked = %d %s", a.status(), a.Body)
	}
}
