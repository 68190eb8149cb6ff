package activation_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestNotifyEmailVerification(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithSignUp(t)
	unverified := false
	ann := person.NewPerson{
		Username: "ann", Email: identitytest.Newcomer, EmailVerified: &unverified,
		Password: secret.New(identitytest.FreshPassword),
	}
	h.Add(person.NewPerson{Username: "off", Email: "off@example.com", EmailVerified: &unverified})
	identitytest.WantNotices(t, "switched off", box)
	u.EmailNotifications.EmailVerification.OnAPIEnabled = true
	h.Add(person.NewPerson{Username: "bob@example.com"})
	identitytest.WantNotices(t, "with a verified address", box)
	p := h.Add(ann)
	link := h.Link(notify.EmailVerification, identitytest.Newcomer)
	for range 2 {
		h.Browser().Get(link)
	}
	b := h.Browser()
	page := b.Get(link)
	if page.Code != http.StatusOK || page.URL != "/verify" || !strings.Contains(page.Body.String(), "ann") ||
		!strings.Contains(page.Body.String(), identitytest.Newcomer) {
		t.Fatalf("GET of the link = %d at %s:\n%s", page.Code, page.URL, page.Body)
	}
	if a := b.Do(http.MethodPost, "/verify", "csrf=x"); a.Code != http.StatusForbidden {
		t.Errorf("the form without its token = %d", a.Code)
	}
	if q, _ := h.Person.Person(t.Context(), p.ID); q.EmailVerified {
		t.Error("verified before the form was sent")
	}
	if a := b.Post(page); a.Code != http.StatusSeeOther || b.Get(a.Header().Get("Location")).Code != http.StatusOK {
		t.Errorf("POST = %d", a.Code)
	}
	if q, err := h.Person.Person(t.Context(), p.ID); err != nil || !q.EmailVerified {
		t.Errorf("person = %+v, %v", q, err)
	}
	if a := b.Get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link again = %d", a.Code)
	}

	u.Attributes.Verification.EmailEnabled = false
	h.Browser().SignUp("email", "off2@example.com", "password", identitytest.FreshPassword)
	identitytest.WantNotices(t, "sign-up, switched off", box)
	u.EmailNotifications.EmailVerification.OnWebEnabled = true
	h.Browser().SignUp("email", "on@example.com", "password", identitytest.FreshPassword)
	identitytest.WantNotices(t, "sign-up, switched on", box, "email_verification on@example.com")
	u.Attributes.Verification.EmailEnabled = true
	c := h.Browser()
	c.SignUp("email", "code@example.com", "password", identitytest.FreshPassword)
	c.Post(c.Get("/sign-up/confirm"), "code", h.Mailed(notify.SignUpCode, "code@example.com"))
	identitytest.WantNotices(t, "sign-up with a code", box)
}

func TestVerifyAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 241: the link of an address that is another now, or late, verifies nothing", func(t *testing.T) {
		t.Parallel()
		for name, kill := range map[string]func(h *identitytest.Harness, id string) error{
			"seven days": func(h *identitytest.Harness, _ string) error { h.Clock.Advance(7 * 24 * time.Hour); return nil },
			"another address": func(h *identitytest.Harness, id string) error {
				_, err := h.Person.UpdatePerson(t.Context(), id, person.Edit{By: identitytest.Ops}, func(_ storage.Tx, d *person.Details) error {
					d.Profile.EmailAddresses = []person.EmailAddress{{Value: "else@example.com", Primary: true}}
					return nil
				})
				return err
			},
			"a block": func(h *identitytest.Harness, id string) error {
				return h.Person.SetState(t.Context(), id, person.Blocked, identitytest.Ops)
			},
		} {
			h, u, _ := identitytest.NewWithSignUp(t)
			u.EmailNotifications.EmailVerification.OnAPIEnabled = true
			unverified := false
			p := h.Add(person.NewPerson{Username: "ann", Email: identitytest.Newcomer, EmailVerified: &unverified})
			b := h.Browser()
			page := b.Get(h.Link(notify.EmailVerification, identitytest.Newcomer))
			if err := kill(h, p.ID); err != nil {
				t.Fatal(err)
			}
			if a := b.Post(page); a.Code != http.StatusBadRequest {
				t.Errorf("after %s = %d", name, a.Code)
			}
			if q, err := h.Person.Person(t.Context(), p.ID); err != nil || q.EmailVerified {
				t.Errorf("after %s: %+v, %v", name, q, err)
			}
		}
	})
}
