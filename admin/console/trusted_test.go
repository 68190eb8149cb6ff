package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser/trustedtest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// trusts makes someone trust a browser.
func (h *harness) trusts(username, id string) {
	h.t.Helper()
	h.must(h.store.Update(h.t.Context(), func(tx storage.Tx) error {
		return trustedtest.Trust(tx, h.personID(username), id, h.clock.Now())
	}))
}

// trustedBy are the ids of the browsers that someone trusts.
func (h *harness) trustedBy(username string) string {
	h.t.Helper()
	var ids []string
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) error {
		list, err := h.id.Trusted.Listed(tx, h.personID(username), h.clock.Now())
		ids = nil
		for _, b := range list {
			ids = append(ids, b.ID)
		}
		return err
	}))
	return strings.Join(ids, " ")
}

// lastEvent is the newest event.
func (h *harness) lastEvent() audit.Event {
	h.t.Helper()
	all := h.allEvents(h.t.Context())
	return all[len(all)-1]
}

// TestTrustedBrowsersOfAPerson: the page of a person lists the browsers that they trust, and a helpdesk ends the trust
// in one of them or in all, without ending sessions.
func TestTrustedBrowsersOfAPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const name = "nobody@example.com"
	b, path := h.as("helpdesk@example.com"), personPath(h.personID(name))
	if a := b.get(path); strings.Contains(a.form(), "Trusted browsers") || strings.Contains(a.form(), "untrust") {
		t.Errorf("the page of somebody without a trusted browser speaks of them:\n%s", a.form())
	}
	own := h.as(name)
	for _, id := range []string{"first", "second", "third"} {
		h.trusts(name, id)
		h.clock.Advance(time.Minute)
	}
	h.trusts("two.nobody@example.com", "of-another")
	a := b.get(path)
	_, part, _ := strings.Cut(a.form(), "Trusted browsers")
	part, _, _ = strings.Cut(part, "</table>")
	for _, want := range []string{
		"Firefox", "Linux", "192.0.2.77", "21 November 2035, 12:02", "21 November 2035, 13:02", "21 December 2035",
		path + "/untrust?browser=third",
	} {
		if !strings.Contains(part, want) {
			t.Errorf("the part does not have %q:\n%s", want, part)
		}
	}
	if first, last := strings.Index(part, "browser=first"), strings.Index(part, "browser=third"); first < last || last < 0 {
		t.Errorf("the browser that was trusted last is not the first one:\n%s", part)
	}
	for _, never := range []string{trustedtest.Secret, secret.Hash(trustedtest.Secret), "of-another"} {
		if strings.Contains(a.Body.String(), never) {
			t.Errorf("the page tells %q", never)
		}
	}

	asked := b.get(path + "/untrust?browser=second")
	if !strings.Contains(asked.form(), "Stop trusting this browser?") || h.trustedBy(name) != "third second first" {
		t.Errorf("the question has ended something (%s), or there is no question:\n%s", h.trustedBy(name), asked.form())
	}
	if a := b.submit(asked); a.Code != http.StatusSeeOther || h.trustedBy(name) != "third first" {
		t.Fatalf("one browser: %d, trusted are %q\n%s", a.Code, h.trustedBy(name), a.Body)
	}
	e := h.lastEvent()
	if e.Type != trustedbrowser.Ended.Type || e.PersonID != h.personID(name) || e.Actor != h.personID("helpdesk@example.com") ||
		e.AgentUser != "helpdesk@example.com" {
		t.Errorf("the event of it: %+v", e)
	}
	before := h.events()
	for _, gone := range []string{"second", "", "-", "first/x", "of-another"} {
		if a := b.acts(path + "/untrust?browser=" + url.QueryEscape(gone)); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the browser %q: %d, want 422", gone, a.Code)
		}
	}
	if h.trustedBy(name) != "third first" || h.events() != before {
		t.Errorf("what is not there has changed something: trusted are %q", h.trustedBy(name))
	}

	asked = b.get(path + "/untrust-all")
	if !strings.Contains(asked.form(), "has 2 trusted browsers,") {
		t.Errorf("the question does not say how many:\n%s", asked.form())
	}
	if a := b.submit(asked); a.Code != http.StatusSeeOther || h.trustedBy(name) != "" ||
		h.trustedBy("two.nobody@example.com") != "of-another" {
		t.Errorf("all browsers: %d, trusted are %q", a.Code, h.trustedBy(name))
	}
	if e := h.lastEvent(); e.Type != trustedbrowser.Ended.Type || e.Actor != h.personID("helpdesk@example.com") || e.Reason != "all browsers" {
		t.Errorf("the event of it: %+v", e)
	}
	if a := own.do(http.MethodGet, "/account", ""); a.Code != http.StatusOK {
		t.Errorf("the session of the person has ended: %d", a.Code)
	}
	before = h.events()
	if a := b.acts(path + "/untrust-all"); a.Code != http.StatusOK || h.events() != before {
		t.Errorf("no browser is left: %d, and there are events", a.Code)
	}
}

func TestTrustedBrowserAttacks(t *testing.T) {
	t.Parallel()
	post := func(b *browser, path, token, id string) *answer {
		return b.do(http.MethodPost, path, url.Values{"csrf": {token}, "browser": {id}}.Encode())
	}
	for name, attack := range map[string]func(t *testing.T, h *harness){
		"attack 885: by a viewer, and by a helpdesk of an owner": func(t *testing.T, h *harness) {
			for _, c := range []struct{ by, of string }{
				{"viewer", "nobody"},
				{"viewer", "two.viewer"},
				{"helpdesk", "owner"},
				{"helpdesk", "operator"},
				{"helpdesk", "two.helpdesk"},
				{"operator", "owner"},
				{"nobody", "two.nobody"},
			} {
				of := c.of + "@example.com"
				b, path := h.as(c.by+"@example.com"), personPath(h.personID(of))
				h.trusts(of, "kept-"+c.by)
				if shown := b.get(path); strings.Contains(shown.form(), path+"/untrust") {
					t.Errorf("%s is shown how to end the trust of %s", c.by, c.of)
				}
				for _, act := range []string{"/untrust", "/untrust-all"} {
					if a := b.get(path + act + "?browser=kept-" + c.by); a.Code != http.StatusForbidden {
						t.Errorf("%s asks for %s of %s: %d, want 403", c.by, act, c.of, a.Code)
					}
					if a := post(b, path+act, b.get("/account/profile").csrf(), "kept-"+c.by); a.Code != http.StatusForbidden {
						t.Errorf("%s sends %s of %s: %d, want 403", c.by, act, c.of, a.Code)
					}
				}
				if !strings.Contains(h.trustedBy(of), "kept-"+c.by) {
					t.Errorf("%s has ended the trust of %s", c.by, c.of)
				}
			}
		},
		"attack 885: the rights end while the page is open": func(t *testing.T, h *harness) {
			const of = "nobody@example.com"
			b, path := h.as("helpdesk@example.com"), personPath(h.personID(of))
			h.trusts(of, "kept")
			one, all := b.get(path+"/untrust?browser=kept"), b.get(path+"/untrust-all")
			h.meanwhile.set(func() {
				h.must(h.id.Person.EndSessions(t.Context(), h.personID("helpdesk@example.com"), audit.Actor{ID: "test"}))
			})
			if a := b.submit(one); a.Code != http.StatusForbidden {
				t.Errorf("whose session ends meanwhile: %d, want 403", a.Code)
			}
			b.submit(all)
			if h.trustedBy(of) != "kept" {
				t.Error("the trust has ended")
			}
		},
		"attack 886: forged forms": func(t *testing.T, h *harness) {
			const of = "nobody@example.com"
			b, other, path := h.as("helpdesk@example.com"), h.as("two.helpdesk@example.com"), personPath(h.personID(of))
			h.trusts(of, "kept")
			h.trusts("two.nobody@example.com", "theirs")
			for _, act := range []string{"/untrust", "/untrust-all"} {
				right := b.get(path + act + "?browser=kept").csrf()
				for what, token := range map[string]string{
					"no token": "", "of another session": other.get(path + act + "?browser=kept").csrf(), "of another act": b.get(path + "/end").csrf(),
					"of another person's page": b.get(personPath(h.personID("two.nobody@example.com")) + act + "?browser=kept").csrf(),
				} {
					if a := post(b, path+act, token, "kept"); a.Code != http.StatusForbidden {
						t.Errorf("%s with a token, %s: %d, want 403", act, what, a.Code)
					}
				}
				b.site = "cross-site"
				if a := post(b, path+act, right, "kept"); a.Code != http.StatusForbidden {
					t.Errorf("%s from another site: %d, want 403", act, a.Code)
				}
				b.site = "same-origin"
				if a := b.do(http.MethodGet, path+act+"?"+url.Values{"csrf": {right}, "browser": {"kept"}}.Encode(), ""); a.Code != http.StatusOK {
					t.Errorf("GET %s = %d, want the question", act, a.Code)
				}
			}
			if h.trustedBy(of) != "kept" || strings.Contains(h.events(), trustedbrowser.Ended.Type) {
				t.Errorf("the trust has ended: %q", h.trustedBy(of))
			}
		},
		"attack 887: the browser of another person": func(t *testing.T, h *harness) {
			b, path := h.as("helpdesk@example.com"), personPath(h.personID("nobody@example.com"))
			h.trusts("nobody@example.com", "kept")
			h.trusts("owner@example.com", "of-the-owner")
			for _, id := range []string{
				"of-the-owner", h.personID("owner@example.com") + "/of-the-owner",
				"../" + h.personID("owner@example.com") + "/of-the-owner", "",
			} {
				if a := post(b, path+"/untrust", b.get(path+"/untrust?browser=kept").csrf(), id); a.Code != http.StatusUnprocessableEntity {
					t.Errorf("the browser %q: %d, want 422", id, a.Code)
				}
			}
			if h.trustedBy("owner@example.com") != "of-the-owner" || h.trustedBy("nobody@example.com") != "kept" {
				t.Error("the trust has ended")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, newHarness(t))
		})
	}
}
