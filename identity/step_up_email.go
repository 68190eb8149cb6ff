package identity

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// emailMethod is a code that comes by e-mail, to an address that is verified.
var emailMethod = stepUpMethod{
	name:  methodEmail,
	needs: func(s *Service) bool { return s.Notify != nil },
	level: func(u *config.Units) int {
		if !u.EmailNotifications.StepUpAuthentication {
			return 0
		}
		return u.StepUp.AuthenticationMethods.EmailAuthenticationLevel
	},
	has: func(tx storage.Tx, si *signedIn, _ *stepUpRecord) (bool, error) {
		to, err := stepUpAddress(tx, si)
		return to != "", err
	},
	address: stepUpAddress, mask: maskEmail,
	send: func(s *Service, tx storage.Tx, si *signedIn, code string, now time.Time) error {
		t, err := stepUpOwner(tx, si)
		if err != nil {
			return err
		}
		n := t.notice(notify.StepUpCode, now)
		n.Data["code"] = code
		return s.send(tx, n)
	},
	check: checkStepUpCode,
}

func stepUpOwner(tx storage.Tx, si *signedIn) (told, error) {
	rec, err := persons.Get(tx, si.session.PersonID)
	if err != nil {
		return told{}, err
	}
	prof, err := readProfile(tx, si.session.PersonID, &rec)
	return told{id: si.session.PersonID, rec: &rec, profile: &prof.Profile, verifiedOnly: true}, err
}

func stepUpAddress(tx storage.Tx, si *signedIn) (string, error) {
	t, err := stepUpOwner(tx, si)
	if err != nil {
		return "", err
	}
	return t.address(), nil
}

// maskEmail shows an address to who knows it already.
func maskEmail(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at <= 0 {
		return ""
	}
	first := []rune(address[:at])[0]
	return string(first) + "•••" + address[at:]
}

// sentTo is what a code for a step-up is good for, at where the person reads codes now. To is empty when that is nowhere.
func (m *stepUpMethod) sentTo(tx storage.Tx, flow string, si *signedIn) (codeFor, error) {
	to, err := m.address(tx, si)
	return codeFor{Purpose: "step-up " + m.name, Subject: flow, Bound: si.id, To: to, Limit: si.session.PersonID}, err
}

// sending fills in what the page of a method says of codes that are sent.
func (s *Service) sending(ctx context.Context, x steppingUp, m *stepUpMethod, in *page.StepUp) error {
	if m.send == nil {
		return nil
	}
	now := s.Now()
	return s.Store.View(ctx, func(tx storage.Tx) error {
		c, err := m.sentTo(tx, x.id, x.si)
		if err != nil {
			return err
		}
		in.Send, in.To = true, m.mask(c.To)
		in.Sent, err = s.codeWaits(tx, c, now)
		return err
	})
}

// handleSend serves the button that sends a code.
func (s *Service) handleSend(w http.ResponseWriter, r *http.Request, x steppingUp, m *stepUpMethod) {
	code, err := newSentCode(s.Random)
	var wait time.Duration
	if err == nil {
		now := s.Now()
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			c, err := m.sentTo(tx, x.id, x.si)
			if err != nil || c.To == "" {
				return err // taken away meanwhile
			}
			wait, err = s.sendCode(tx, c, code, now, func(tx storage.Tx, code string) error { return m.send(s, tx, x.si, code, now) })
			return err
		})
	}
	switch {
	case err != nil:
		s.fail(w, r, err, stepUpURL(x.id))
	case wait > 0:
		in := page.StepUp{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.stepUpPage(w, r, x, m, http.StatusTooManyRequests, in)
	default:
		s.redirect(w, r, stepUpURL(x.id)+"&method="+m.name)
	}
}

// checkStepUpCode checks a code that was sent for a step-up. It holds no more when the person reads codes elsewhere by now.
func checkStepUpCode(ctx context.Context, s *Service, t *stepUpTry) (func(storage.Tx, *stepUpRecord) (bool, error), error) {
	var c codeFor
	err := s.Store.View(ctx, func(tx storage.Tx) (err error) {
		c, err = t.method.sentTo(tx, t.flow, t.si)
		return err
	})
	if err != nil {
		return nil, err
	}
	spend, err := s.checkCode(ctx, c, t.code)
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx, _ *stepUpRecord) (bool, error) {
		if now, err := t.method.sentTo(tx, t.flow, t.si); err != nil || now != c {
			return false, err
		}
		return spend(tx)
	}, nil
}

func emailSection(_ storage.Tx, _ *signedIn, st *standing) (*page.SecuritySection, error) {
	if pick(st.has, emailMethod.name) == nil {
		return nil, nil //nolint:nilnil // switched off, or no address
	}
	return &page.SecuritySection{Key: emailMethod.name, State: "on"}, nil
}

// lowerReached follows a change of a profile: it takes from the person's sessions what codes have raised them to that went to an address or number
// which is no longer the person's.
func (s *Service) lowerReached(tx storage.Tx, person string, old, now *Profile) error {
	gone := func(c contact, verified bool) bool {
		_, _, still := c.find(now)
		return verified && !still
	}
	if slices.ContainsFunc(old.EmailAddresses, func(e EmailAddress) bool { return gone(contact{contactEmail, e.Value}, e.Verified) }) {
		if err := s.lowerSessions(tx, person, methodEmail, ""); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(old.PhoneNumbers, func(n PhoneNumber) bool { return gone(contact{contactPhone, n.Value}, n.Verified) }) {
		return s.lowerSessions(tx, person, methodSMS, "")
	}
	return nil
}
