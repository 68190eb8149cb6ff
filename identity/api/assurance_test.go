package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestIdentityCard: a backend says that an identity card was validated, and the person has the level until it expires
// or the backend refuses the card. The person is told, if the settings say so.
func TestIdentityCard(t *testing.T) {
	t.Parallel()
	mail := new(notifytest.Notices)
	h := newPeopleNotified(t, mail, secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100})
	mail.In(h.store)
	verified := true
	ann := h.add(person.NewPerson{Username: "ann@example.com", EmailVerified: &verified})
	of := "/api/persons/" + ann
	level := func() any {
		return answer(t, h.send(http.MethodGet, of+"/assurance", "").ResponseRecorder)["identity_assurance_level"]
	}
	if got := level(); got != 0.0 {
		t.Errorf("before: level %v, want 0", got)
	}
	heard := func(want string) {
		t.Helper()
		var kinds []string
		for _, n := range mail.Take() {
			kinds = append(kinds, string(n.Kind)+" "+n.To)
		}
		if got := strings.Join(kinds, ", "); got != want {
			t.Errorf("notices = %q, want %q", got, want)
		}
	}
	mail.Take()
	const good = `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":3,"reference":"case 7","expires_at":"2026-11-21T14:00:00Z","claims":{"given_name":"Ann","birthdate":"1990-12-31"}}`
	a := h.send(http.MethodPost, of+"/identity-card", good)
	want := `{"identity_assurance_level":3,"evidence":[{"kind":"document","by":"ops","level":3,"since":"2026-11-21T12:00:00Z","expires_at":"2026-11-21T14:00:00Z",` +
		`"document_type":"idcard","reference":"case 7","claims":{"birthdate":"1990-12-31","given_name":"Ann"}}]}`
	if got := strings.TrimSpace(a.ResponseRecorder.Body.String()); a.status() != http.StatusOK || got != want {
		t.Errorf("a card = %d %s, want %s", a.status(), got, want)
	}
	heard("")
	h.set(func(u *settings.Units) { u.EmailNotifications.ValidationOfIDCardCompleted = true })
	h.send(http.MethodPost, of+"/identity-card", good).check(t, "the card again", http.StatusOK, 0)
	heard("id_card_validated ann@example.com")
	h.set(func(u *settings.Units) { u.EmailNotifications.ValidationOfIDCardFailed = true })

	for name, body := range map[string]string{
		"no result":             `{"document_type":"idcard"}`,
		"another result":        `{"result":"MAYBE","document_type":"idcard"}`,
		"another document":      `{"result":"VALIDATED","document_type":"library card","identity_assurance_level":1}`,
		"no level":              `{"result":"VALIDATED","document_type":"idcard"}`,
		"level 5":               `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":5}`,
		"a refusal with one":    `{"result":"REFUSED","document_type":"idcard","identity_assurance_level":1}`,
		"expired":               `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":1,"expires_at":"2026-11-21T11:00:00Z"}`,
		"a number of the card":  `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":1,"document_number":"X1"}`,
		"another claim":         `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":1,"claims":{"groups":"admins"}}`,
		"no date":               `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":1,"claims":{"birthdate":"31.12.1990"}}`,
		"a reference that ends": `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":1,"reference":"a\u0000b"}`,
	} {
		h.send(http.MethodPost, of+"/identity-card", body).check(t, name, http.StatusBadRequest, 0)
	}
	h.send(http.MethodPost, "/api/persons/"+bob+"/identity-card", good).check(t, "nobody", http.StatusNotFound, 0)
	h.send(http.MethodGet, "/api/persons/"+bob+"/assurance", "").check(t, "nobody", http.StatusNotFound, 0)

	// Another backend adds evidence of its own, and takes back only that.
	h.send(http.MethodPost, of+"/identity-card", `{"result":"VALIDATED","document_type":"passport","identity_assurance_level":4}`,
		as("desk")...).check(t, "a passport", http.StatusOK, 0)
	if got := level(); got != 4.0 {
		t.Errorf("with a passport: level %v, want 4", got)
	}
	mail.Take()
	h.send(http.MethodPost, of+"/identity-card", `{"result":"REFUSED","document_type":"passport"}`, as("desk")...).check(t,
		"the passport refused", http.StatusOK, 0)
	heard("id_card_refused ann@example.com")
	if got := level(); got != 3.0 {
		t.Errorf("without it: level %v, want 3", got)
	}
	h.clock.Advance(3 * time.Hour)
	if got := level(); got != 0.0 {
		t.Errorf("after its end: level %v, want 0", got)
	}
	h.send(http.MethodPost, of+"/identity-card", `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":2}`).check(t,
		"without end", http.StatusOK, 0)
	h.send(http.MethodDelete, of+"/assurance", "").check(t, "withdrawn", http.StatusNoContent, 0)
	if got := level(); got != 0.0 {
		t.Errorf("withdrawn: level %v, want 0", got)
	}
	count := map[string]int{}
	for _, e := range h.events() {
		count[e.Type]++
	}
	if count["person.IdentityCardValidatedEvent"] != 4 || count["person.IdentityCardRefusedEvent"] != 1 ||
		count["person.IdentityAssuranceWithdrawnEvent"] != 1 {
		t.Errorf("events = %v", count)
	}
}

func TestIdentityCardAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 772: a backend without the right, or of another partition, says who somebody is", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t, westOnly)
		of := "/api/persons/" + h.person(demo)
		for path, method := range map[string]string{"/identity-card": http.MethodPost, "/assurance": http.MethodDelete} {
			const card = `{"result":"VALIDATED","document_type":"idcard","identity_assurance_level":4}`
			h.send(method, of+path, card, as("other")...).check(t, path+" without the right", http.StatusForbidden, 0)
			h.send(method, of+path, card, as("west")...).check(t, path+" of another partition", http.StatusNotFound, 0)
		}
		if a := h.send(http.MethodGet, of+"/assurance", "").ResponseRecorder.Body.String(); !strings.Contains(a, `"identity_assurance_level":0`) {
			t.Errorf("after it: %s", a)
		}
	})
}
