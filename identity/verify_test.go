package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestNotifyEmailVerification(t *testing.T) {
	t.Parallel()
	h, u, box := open(t)
	unverified := false
	ann := person.NewPerson{Username: "ann", Email: newcomer, EmailVerified: &unverified, Password: secret.New(freshPassword)}
	h.add(person.NewPerson{Username: "off", Email: "off@example.com", EmailVerified: &unverified})
	heard(t, "switched off", box)
	u.EmailNotifications.EmailVerification.OnAPIEnabled = true
	h.add(person.NewPerson{Username: "bob@example.com"})
	heard(t, "with a verified address", box)
	p := h.add(ann)
	link := h.link(notify.EmailVerification, newcomer)
	for range 2 {
		h.browser().get(link)
	}
	b := h.browser()
	page := b.get(link)
	if page.Code != http.StatusOK || page.url != "/verify" || !strings.Contains(page.Body.String(), "ann") || !strings.Contains(page.Body.String(), newcomer) {
		t.Fatalf("GET of the link = %d at %s:\n%s", page.Code, page.url, page.Body)
	}
	if a := b.do(http.MethodPost, "/verify", "csrf=x"); a.Code != http.StatusForbidden {
		t.Errorf("the form without its token = %d", a.Code)
	}
	if q, _ := h.Person.Person(t.Context(), p.ID); q.EmailVerified {
		t.Error("verified before the form was sent")
	}
	if a := b.post(page); a.Code != http.StatusSeeOther || b.get(a.Header().Get("Location")).Code != http.StatusOK {
		t.Errorf("POST = %d", a.Code)
	}
	if q, err := h.Person.Person(t.Context(), p.ID); err != nil || !q.EmailVerified {
		t.Errorf("person = %+v, %v", q, err)
	}
	if a := b.get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link again = %d", a.Code)
	}

	u.Attributes.Verification.EmailEnabled = false
	h.browser().signUp("email", "off2@example.com", "password", freshPassword)
	heard(t, "sign-up, switched off", box)
	u.EmailNotifications.EmailVerification.OnWebEnabled = true
	h.browser().signUp("email", "on@example.com", "password", freshPassword)
	heard(t, "sign-up, switched on", box, "email_verification on@example.com")
	u.Attributes.Verification.EmailEnabled = true
	c := h.browser()
	c.signUp("email", "code@example.com", "password", freshPassword)
	c.post(c.get("/sign-up/confirm"), "code", h.mailed(notify.SignUpCode, "code@example.com"))
	heard(t, "sign-up with a code", box)
}

func TestVerifyAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 241: the link of an address that is another now, or late, verifies nothing", func(t *testing.T) {
		t.Parallel()
		for name, kill := range map[string]func(h *harness, id string) error{
			"seven days": func(h *harness, _ string) error { h.clock.Advance(7 * 24 * time.Hour); return nil },
			"another address": func(h *harness, id string) error {
				_, err := h.Person.UpdatePerson(t.Context(), id, person.Edit{By: ops}, func(_ storage.Tx, d *person.Details) error {
					d.Profile.EmailAddresses = []person.EmailAddress{{Value: "else@example.com", Primary: true}}
					return nil
				})
				return err
			},
			"a block": func(h *harness, id string) error { return h.Person.SetState(t.Context(), id, person.Blocked, ops) },
		} {
			h, u, _ := open(t)
			u.EmailNotifications.EmailVerification.OnAPIEnabled = true
			unverified := false
			p := h.add(person.NewPerson{Username: "ann", Email: newcomer, EmailVerified: &unverified})
			b := h.browser()
			page := b.get(h.link(notify.EmailVerification, newcomer))
			if err := kill(h, p.ID); err != nil {
				t.Fatal(err)
			}
			if a := b.post(page); a.Code != http.StatusBadRequest {
				t.Errorf("after %s = %d", name, a.Code)
			}
			if q, err := h.Person.Person(t.Context(), p.ID); err != nil || q.EmailVerified {
				t.Errorf("after %s: %+v, %v", name, q, err)
			}
		}
	})
}
