package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser/trustedtest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// trusts makes a person trust a browser.
func (h *people) trusts(personID, id string) {
	h.Helper()
	err := h.store.Update(h.Context(), func(tx storage.Tx) error { return trustedtest.Trust(tx, personID, id, h.clock.Now()) })
	if err != nil {
		h.Fatal(err)
	}
}

// trustedBy are the ids of the browsers that a person trusts, as the API lists them.
func (h *people) trustedBy(personID string) string {
	h.Helper()
	a := h.send(http.MethodGet, "/api/persons/"+personID+"/trusted-browsers", "")
	a.check(h, "list", http.StatusOK, 0)
	var ids []string
	for _, b := range answer(h, a.ResponseRecorder)["browsers"].([]any) {
		ids = append(ids, b.(map[string]any)["id"].(string))
	}
	return strings.Join(ids, " ")
}

// TestTrustedBrowsersAPI: a backend sees which browsers count for the second factor of a person, and ends the trust in
// one or in all.
func TestTrustedBrowsersAPI(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	ann := h.add(person.NewPerson{Username: "ann@example.com"})
	of := "/api/persons/" + ann + "/trusted-browsers"
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		h.send(method, of, "").check(t, "off by default", http.StatusServiceUnavailable, 1001)
	}
	h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
	if got := strings.TrimSpace(h.send(http.MethodGet, of, "").ResponseRecorder.Body.String()); got != `{"browsers":[]}` {
		t.Errorf("no browser is listed as %s", got)
	}
	h.trusts(ann, "first")
	_, cookie := h.signIn(ann)
	want := `{"browsers":[{"id":"first","trusted_at":"2026-11-21T12:00:00Z","last_used_at":"2026-11-21T13:00:00Z","expires_at":"2026-12-21T12:00:00Z","client_ip":"192.0.2.77","user_agent":"Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"}]}`
	if got := strings.TrimSpace(h.send(http.MethodGet, of, "").ResponseRecorder.Body.String()); got != want {
		t.Errorf("a browser is listed as %s, want %s", got, want)
	}
	h.clock.Advance(time.Minute)
	h.trusts(ann, "second")
	for name, tt := range map[string]struct {
		method, path string
		status       int
	}{
		"list nobody's":   {"GET", "/api/persons/" + bob + "/trusted-browsers", 404},
		"end nobody's":    {"DELETE", "/api/persons/" + bob + "/trusted-browsers", 404},
		"end one of none": {"DELETE", "/api/persons/" + bob + "/trusted-browsers/first", 404},
		"unknown browser": {"DELETE", of + "/third", 404},
		"empty":           {"DELETE", of + "/", 404},
		"a space":         {"DELETE", of + "/%20", 404},
		"a part":          {"DELETE", of + "/fir", 404},
		"read one":        {"GET", of + "/first", 405},
		"another method":  {"POST", of, 405},
	} {
		h.send(tt.method, tt.path, "").check(t, name, tt.status, 0)
	}
	if got := h.trustedBy(ann); got != "second first" {
		t.Fatalf("trusted are %q, want both", got)
	}
	h.send(http.MethodDelete, of+"/first", "").check(t, "end one", http.StatusNoContent, 0)
	h.send(http.MethodDelete, of+"/first", "").check(t, "end it again", http.StatusNotFound, 0)
	if got := h.trustedBy(ann); got != "second" {
		t.Errorf("trusted are %q, want the other one", got)
	}
	h.trusts(ann, "third")
	for range 2 { // the second time nothing is left
		h.send(http.MethodDelete, of, "").check(t, "end all", http.StatusNoContent, 0)
	}
	if got := h.trustedBy(ann); got != "" {
		t.Errorf("trusted are %q, want none", got)
	}
	if !h.opens(cookie) {
		t.Error("the session has ended, too")
	}
	var said []string
	for _, e := range h.events() {
		if e.Type == trustedbrowser.Ended.Type {
			said = append(said, e.Actor+" "+e.PersonID+" "+e.Reason)
		}
	}
	if got := strings.Join(said, ", "); got != "ops "+ann+" , ops "+ann+" all browsers" {
		t.Errorf("events: %q", got)
	}
}

func TestTrustedBrowsersAPIAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 885: a backend without the right, or of another partition", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t, westOnly)
		h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
		demoID := h.person(demo)
		h.trusts(demoID, "kept")
		of := "/api/persons/" + demoID + "/trusted-browsers"
		for _, r := range [][2]string{{http.MethodGet, of}, {http.MethodDelete, of}, {http.MethodDelete, of + "/kept"}} {
			h.send(r[0], r[1], "", as("other")...).check(t, r[0]+" without the right", http.StatusForbidden, 0)
			h.send(r[0], r[1], "", as("west")...).check(t, r[0]+" of another partition", http.StatusNotFound, 0)
			h.send(r[0], r[1], "", "Authorization", "Bearer kept."+trustedtest.Secret).check(t, r[0]+" by the cookie of the browser",
				http.StatusUnauthorized, 0)
		}
		if got := h.trustedBy(demoID); got != "kept" {
			t.Errorf("trusted are %q", got)
		}
	})
	t.Run("attack 887: another person's browser under this person's address", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t)
		h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
		ann, ben := h.add(person.NewPerson{Username: "ann@example.com"}), h.add(person.NewPerson{Username: "ben@example.com"})
		h.trusts(ann, "of-ann")
		h.trusts(ben, "of-ben")
		for _, id := range []string{"of-ann", "%2e%2e%2f" + ann + "%2fof-ann", ann + "%2fof-ann"} {
			h.send(http.MethodDelete, "/api/persons/"+ben+"/trusted-browsers/"+id, "").check(t, id, http.StatusNotFound, 0)
		}
		if h.trustedBy(ann) != "of-ann" || h.trustedBy(ben) != "of-ben" {
			t.Errorf("trusted are %q and %q", h.trustedBy(ann), h.trustedBy(ben))
		}
	})
	t.Run("the list opens nothing", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t)
		h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
		h.trusts(h.person(demo), "one")
		a := h.send(http.MethodGet, "/api/persons/"+h.person(demo)+"/trusted-browsers", "")
		if body := a.ResponseRecorder.Body.String(); !strings.Contains(body, "one") || strings.Contains(body, trustedtest.Secret) ||
			strings.Contains(body, secret.Hash(trustedtest.Secret)) {
			t.Errorf("the list tells the secret: %s", body)
		}
	})
}
