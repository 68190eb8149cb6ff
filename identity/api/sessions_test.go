package api_test

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// signIn opens a session of a person, and returns its id and its cookie.
func (h *people) signIn(personID string) (id, value string) {
	h.Helper()
	value = must(secret.NewToken(rand.Reader, secret.Session))
	fresh := must(secret.ID(rand.Reader, 16)) // as a sign-in makes it
	now := h.clock.Now()
	err := h.store.Update(h.Context(), func(tx storage.Tx) error {
		rec, err := person.Records.Get(tx, personID)
		if err != nil {
			return err
		}
		id, _, err = h.persons.Session.Begin(tx, fresh, value, "", session.Record{
			PersonID: personID, Epoch: rec.Epoch, AuthTime: now, Seen: now, Level: 2, AMR: []string{"DEFAULT"}, Provider: session.LocalProvider,
			Address: "192.0.2.7", Agent: "Firefox",
		})
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return id, value
}

// opens reports whether a value of the session cookie signs a browser in.
func (h *people) opens(value string) bool {
	h.Helper()
	r := httptest.NewRequest(http.MethodGet, issuer+"/account", nil)
	r.AddCookie(&http.Cookie{Name: cookie.For(issuer).Name(session.CookieSession), Value: value})
	result, err := h.persons.Session.CurrentOf(r)
	if err != nil {
		h.Fatal(err)
	}
	return result != nil
}

// TestSessionAPI: a backend sees where a person is signed in, and ends one session or all.
func TestSessionAPI(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	ann := h.add(person.NewPerson{Username: "ann@example.com"})
	of := "/api/persons/" + ann + "/sessions"
	first, cookie := h.signIn(ann)
	h.send(http.MethodGet, of, "").check(t, "off by default", http.StatusServiceUnavailable, 1001)
	h.send(http.MethodDelete, "/api/sessions/"+first, "").check(t, "off by default", http.StatusServiceUnavailable, 1001)
	h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
	if !h.opens(cookie) {
		t.Fatal("the session is not there")
	}

	a := h.send(http.MethodGet, "/api/sessions/"+first, "")
	want := `{"id":"` + first + `","person_id":"` + ann +
		`","created_at":"2026-11-21T12:00:00Z","signed_in_at":"2026-11-21T12:00:00Z","last_used_at":"2026-11-21T12:00:00Z",` +
		`"expires_at":"2026-11-21T13:00:00Z","authentication_level":2,"amr":["DEFAULT"],"provider":"identity","client_ip":"192.0.2.7","user_agent":"Firefox"}`
	if got := strings.TrimSpace(a.ResponseRecorder.Body.String()); a.status() != http.StatusOK || got != want {
		t.Errorf("a session = %d %s, want %s", a.status(), got, want)
	}
	for range 4 {
		h.signIn(ann)
	}
	pages, seen, after := 0, map[string]bool{}, ""
	for more := true; more; pages++ {
		body := answer(t, h.send(http.MethodGet, of+"?limit=2&after="+after, "").ResponseRecorder)
		for _, s := range body["sessions"].([]any) {
			seen[s.(map[string]any)["id"].(string)] = true
		}
		after, more = body["next"].(string)
	}
	if pages != 3 || len(seen) != 5 || !seen[first] {
		t.Errorf("%d pages with %d sessions, want 3 with 5", pages, len(seen))
	}
	for name, tt := range map[string]struct {
		method, path string
		status, code int
		header       []string
	}{
		"limit":              {"GET", of + "?limit=0", 400, 4002, nil},
		"cursor":             {"GET", of + "?after=" + strings.Repeat("x", 65), 400, 0, nil},
		"nobody":             {"GET", "/api/persons/" + bob + "/sessions", 404, 0, nil},
		"end nobody's":       {"DELETE", "/api/persons/" + bob + "/sessions", 404, 0, nil},
		"unknown session":    {"GET", "/api/sessions/" + bob, 404, 0, nil},
		"end an unknown one": {"DELETE", "/api/sessions/" + bob, 404, 0, nil},
		"no id":              {"GET", "/api/sessions/x", 404, 0, nil},
		"NUL":                {"GET", "/api/sessions/%00", 404, 0, nil},
		"a long id":          {"DELETE", "/api/sessions/" + strings.Repeat("x", 65), 404, 0, nil},
		"a slash":            {"DELETE", "/api/sessions/" + first[:4] + "%2f" + first[4:], 404, 0, nil},
		"another method":     {"POST", of, 405, 0, nil},
	} {
		h.send(tt.method, tt.path, "", tt.header...).check(t, name, tt.status, tt.code)
	}

	h.send(http.MethodDelete, "/api/sessions/"+first, "").check(t, "end one", http.StatusNoContent, 0)
	h.send(http.MethodGet, "/api/sessions/"+first, "").check(t, "read it then", http.StatusNotFound, 0)
	h.send(http.MethodDelete, "/api/sessions/"+first, "").check(t, "end it again", http.StatusNotFound, 0)
	if h.opens(cookie) {
		t.Error("a session that was ended opens")
	}
	_, other := h.signIn(ann)
	h.send(http.MethodDelete, of, "").check(t, "end all", http.StatusNoContent, 0)
	if left := answer(t, h.send(http.MethodGet, of, "").ResponseRecorder)["sessions"].([]any); len(left) > 0 || h.opens(other) {
		t.Errorf("after the end of all: %v", left)
	}
	kinds := map[string]string{}
	for _, e := range h.events() {
		if e.PersonID == ann {
			kinds[e.Type] = e.Actor + " " + e.SessionID
		}
	}
	if kinds["session.SignedOutEvent"] != "ops "+first || kinds["session.SessionsEndedEvent"] == "" {
		t.Errorf("events = %v", kinds)
	}

	_, last := h.signIn(ann)
	h.clock.Advance(2 * time.Hour)
	if left := answer(t, h.send(http.MethodGet, of, "").ResponseRecorder)["sessions"].([]any); len(left) > 0 || h.opens(last) {
		t.Errorf("a session that has expired is listed: %v", left)
	}
}

func TestSessionAPIAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 770: a backend without the right, or of another partition, reads and ends sessions", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t, westOnly)
		h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
		demoID := h.person(demo)
		id, cookie := h.signIn(demoID)
		for _, path := range []string{"/api/persons/" + demoID + "/sessions", "/api/sessions/" + id} {
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				h.send(method, path, "", as("other")...).check(t, method+" without the right", http.StatusForbidden, 0)
				h.send(method, path, "", as("west")...).check(t, method+" of another partition", http.StatusNotFound, 0)
				h.send(method, path, "", "Authorization", "Bearer "+id).check(t, method+" by the id of a session", http.StatusUnauthorized, 0)
			}
		}
		if !h.opens(cookie) {
			t.Error("the session has ended")
		}
	})
	t.Run("attack 6482: a backend ends a session while its provider is disabled", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t, westOnly)
		h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
		id, cookie := h.signIn(h.person(demo))
		identitytest.WhileOff(t, h.store, id, func() {
			h.send(http.MethodGet, "/api/sessions/"+id, "").check(t, "read", http.StatusNotFound, 0)
			h.send(http.MethodDelete, "/api/sessions/"+id, "", as("west")...).check(t, "end, of another partition", http.StatusNotFound, 0)
			h.send(http.MethodDelete, "/api/sessions/"+id, "").check(t, "end", http.StatusNoContent, 0)
		})
		if h.opens(cookie) {
			t.Error("the session counts again")
		}
	})
	t.Run("attack 771: the id of a session is sent as its cookie", func(t *testing.T) {
		t.Parallel()
		h := newPeople(t)
		h.set(func(u *settings.Units) { u.Features.SessionAPIEnabled = true })
		id, cookie := h.signIn(h.person(demo))
		for _, value := range []string{id, "ghs_" + id, strings.ReplaceAll(id, "-", ""), secret.Hash(cookie)} {
			if h.opens(value) {
				t.Errorf("the cookie %q signs in", value)
			}
		}
		for _, path := range []string{"/api/persons/" + h.person(demo) + "/sessions", "/api/sessions/" + id} {
			body := h.send(http.MethodGet, path, "").ResponseRecorder.Body.String()
			if !strings.Contains(body, id) || strings.Contains(body, cookie) || strings.Contains(body, secret.Hash(cookie)) {
				t.Errorf("GET %s tells what opens the session: %s", path, body)
			}
		}
	})
}
