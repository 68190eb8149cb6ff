package mfa

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// emailMethod is a code by e-mail, to a verified address.
var emailMethod = Method{
	Name:  session.MethodEmail,
	needs: func(s *Service) bool { return s.deps.Notify != nil },
	Level: func(u *settings.Units) int {
		if !u.EmailNotifications.StepUpAuthentication {
			return 0
		}
		return u.StepUp.AuthenticationMethods.EmailAuthenticationLevel
	},
	has: func(tx storage.Tx, si *session.Current, _ *Record) (bool, error) {
		to, err := emailAddress(tx, si)
		return to != "", err
	},
	address: emailAddress, mask: person.MaskEmail,
	send: func(s *Service, tx storage.Tx, si *session.Current, code string, now time.Time) error {
		t, err := recipientOf(tx, si)
		if err != nil {
			return err
		}
		n := t.Notice(notify.StepUpCode, now)
		n.Data["code"] = code
		return s.deps.Person.SendNotice(tx, n)
	},
	check: checkCode,
}

// recipientOf returns the person of a sign-in as the recipient of codes, which go to verified addresses and numbers
// only.
func recipientOf(tx storage.Tx, si *session.Current) (person.Recipient, error) {
	rec, err := person.Records.Get(tx, si.Session.PersonID)
	if err != nil {
		return person.Recipient{}, err
	}
	prof, err := person.ReadProfile(tx, si.Session.PersonID, &rec)
	return person.Recipient{ID: si.Session.PersonID, Record: &rec, Profile: &prof.Profile, VerifiedOnly: true}, err
}

// emailAddress returns where a person reads e-mails, or "".
func emailAddress(tx storage.Tx, si *session.Current) (string, error) {
	t, err := recipientOf(tx, si)
	if err != nil {
		return "", err
	}
	return t.Address(), nil
}

// sendCode serves the button that sends a code.
func (s *Service) sendCode(q *webflow.Request, x *stepUp, m *Method) error {
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	var wait time.Duration
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		wait = 0
		c, err := m.codePurpose(tx, x.id, q.SignIn)
		if err != nil || c.To == "" {
			return err // the address or number was removed meanwhile
		}
		wait, err = s.deps.Proof.SendCode(tx, c, code, now, func(tx storage.Tx, code string) error { return m.send(s, tx, q.SignIn, code, now) })
		return err
	})
	switch {
	case err != nil:
		return err
	case wait > 0:
		in := web.StepUp{Problem: "problem.sent", Wait: webflow.RetryAfter(q.W, wait)}
		return s.stepUpPage(q, x, m, http.StatusTooManyRequests, in)
	}
	return q.Redirect(methodURL(x.id, m))
}

// checkCode checks a code that was sent for a step-up. It is no longer valid when the person now reads codes elsewhere.
func checkCode(ctx context.Context, s *Service, a *response) (spender, error) {
	c := a.stepUp.code
	spend, err := s.deps.Proof.CheckCode(ctx, c, a.code)
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx, _ *Record) (bool, error) {
		if now, err := a.method.codePurpose(tx, a.stepUp.id, a.signIn); err != nil || now != c {
			return false, err
		}
		return spend(tx)
	}, nil
}

func emailSection(_ storage.Tx, _ *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if Pick(st.Has, emailMethod.Name) == nil {
		return nil, nil //nolint:nilnil // switched off, or no address
	}
	return &web.SecuritySection{Key: emailMethod.Name, State: "on", Used: st.Own.Used[emailMethod.Name]}, nil
}

// LowerReached lowers a person's sessions after a change of the profile: a code that went to an address or number that
// the person has lost no longer counts.
func (s *Service) LowerReached(tx storage.Tx, personID string, old, now *person.Profile) error {
	if !sameVerified(old, now) {
		if err := s.deps.Session.FactorChanged(tx, personID); err != nil {
			return err
		}
	}
	lost := func(c person.Contact, verified bool) bool {
		_, _, still := c.Find(now)
		return verified && !still
	}
	if slices.ContainsFunc(old.EmailAddresses, func(e person.EmailAddress) bool {
		return lost(person.Contact{Kind: person.ContactEmail, Value: e.Value}, e.Verified)
	}) {
		if err := s.deps.Session.LowerSessions(tx, personID, session.MethodEmail, ""); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(old.PhoneNumbers, func(n person.PhoneNumber) bool {
		return lost(person.Contact{Kind: person.ContactPhone, Value: n.Value}, n.Verified)
	}) {
		return s.deps.Session.LowerSessions(tx, personID, session.MethodSMS, "")
	}
	return nil
}

// sameVerified reports whether two profiles have the same addresses and numbers that codes can be sent to.
func sameVerified(a, b *person.Profile) bool {
	of := func(p *person.Profile) (out []string) {
		for _, e := range p.EmailAddresses {
			if e.Verified {
				out = append(out, e.Value)
			}
		}
		for _, n := range p.PhoneNumbers {
			if n.Verified {
				out = append(out, n.Value)
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(of(a), of(b))
}
