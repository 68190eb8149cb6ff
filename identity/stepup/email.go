package stepup

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// EmailMethod is a code that comes by e-mail, to an address that is verified.
var EmailMethod = Method{
	Name:  session.MethodEmail,
	needs: func(s *Service) bool { return s.notify != nil },
	Level: func(u *config.Units) int {
		if !u.EmailNotifications.StepUpAuthentication {
			return 0
		}
		return u.StepUp.AuthenticationMethods.EmailAuthenticationLevel
	},
	has: func(tx storage.Tx, si *session.Current, _ *Record) (bool, error) {
		to, err := stepUpAddress(tx, si)
		return to != "", err
	},
	address: stepUpAddress, mask: person.MaskEmail,
	send: func(s *Service, tx storage.Tx, si *session.Current, code string, now time.Time) error {
		t, err := stepUpOwner(tx, si)
		if err != nil {
			return err
		}
		n := t.Notice(notify.StepUpCode, now)
		n.Data["code"] = code
		return s.person.SendNotice(tx, n)
	},
	check: checkStepUpCode,
}

func stepUpOwner(tx storage.Tx, si *session.Current) (person.Recipient, error) {
	rec, err := person.Records.Get(tx, si.Session.PersonID)
	if err != nil {
		return person.Recipient{}, err
	}
	prof, err := person.ReadProfile(tx, si.Session.PersonID, &rec)
	return person.Recipient{ID: si.Session.PersonID, Rec: &rec, Profile: &prof.Profile, VerifiedOnly: true}, err
}

func stepUpAddress(tx storage.Tx, si *session.Current) (string, error) {
	t, err := stepUpOwner(tx, si)
	if err != nil {
		return "", err
	}
	return t.Address(), nil
}

// sentTo is what a code for a step-up is good for, at where the person reads codes now. To is empty when that is nowhere.
func (m *Method) sentTo(tx storage.Tx, flow string, si *session.Current) (proof.CodePurpose, error) {
	to, err := m.address(tx, si)
	return proof.CodePurpose{Purpose: "step-up " + m.Name, Subject: flow, Bound: si.ID, To: to, Limit: si.Session.PersonID}, err
}

// sending fills in what the page of a method says of codes that are sent.
func (s *Service) sending(ctx context.Context, x request, m *Method, in *page.StepUp) error {
	if m.send == nil {
		return nil
	}
	now := s.now()
	return s.store.View(ctx, func(tx storage.Tx) error {
		c, err := m.sentTo(tx, x.id, x.si)
		if err != nil {
			return err
		}
		in.Send, in.To = true, m.mask(c.To)
		in.Sent, err = s.proof.CodeWaits(tx, c, now)
		return err
	})
}

// handleSend serves the button that sends a code.
func (s *Service) handleSend(w http.ResponseWriter, r *http.Request, x request, m *Method) {
	code, err := proof.NewSentCode(s.random)
	var wait time.Duration
	if err == nil {
		now := s.now()
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			c, err := m.sentTo(tx, x.id, x.si)
			if err != nil || c.To == "" {
				return err // taken away meanwhile
			}
			wait, err = s.proof.SendCode(tx, c, code, now, func(tx storage.Tx, code string) error { return m.send(s, tx, x.si, code, now) })
			return err
		})
	}
	switch {
	case err != nil:
		s.front.Fail(w, r, err, URL(x.id))
	case wait > 0:
		in := page.StepUp{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.stepUpPage(w, r, x, m, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, URL(x.id)+"&method="+m.Name)
	}
}

// checkStepUpCode checks a code that was sent for a step-up. It holds no more when the person reads codes elsewhere by now.
func checkStepUpCode(ctx context.Context, s *Service, t *answer) (func(storage.Tx, *Record) (bool, error), error) {
	var c proof.CodePurpose
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		c, err = t.method.sentTo(tx, t.flow, t.si)
		return err
	})
	if err != nil {
		return nil, err
	}
	spend, err := s.proof.CheckCode(ctx, c, t.code)
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx, _ *Record) (bool, error) {
		if now, err := t.method.sentTo(tx, t.flow, t.si); err != nil || now != c {
			return false, err
		}
		return spend(tx)
	}, nil
}

func emailSection(_ storage.Tx, _ *session.Current, st *Standing) (*page.SecuritySection, error) {
	if Pick(st.Has, EmailMethod.Name) == nil {
		return nil, nil //nolint:nilnil // switched off, or no address
	}
	return &page.SecuritySection{Key: EmailMethod.Name, State: "on"}, nil
}

// LowerReached follows a change of a profile: it takes from the person's sessions what codes have raised them to that went to an address or number
// which is no longer the person's.
func (s *Service) LowerReached(tx storage.Tx, personID string, old, now *person.Profile) error {
	gone := func(c person.Contact, verified bool) bool {
		_, _, still := c.Find(now)
		return verified && !still
	}
	if slices.ContainsFunc(old.EmailAddresses, func(e person.EmailAddress) bool {
		return gone(person.Contact{Kind: person.ContactEmail, Value: e.Value}, e.Verified)
	}) {
		if err := s.session.LowerSessions(tx, personID, session.MethodEmail, ""); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(old.PhoneNumbers, func(n person.PhoneNumber) bool {
		return gone(person.Contact{Kind: person.ContactPhone, Value: n.Value}, n.Verified)
	}) {
		return s.session.LowerSessions(tx, personID, session.MethodSMS, "")
	}
	return nil
}
