package enrol

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// number returns the telephone number on record that a code can be sent to, as it is sent and as it is stored. Nobody has shown yet whose it is.
func (x *invitation) number() (to, stored string) {
	for _, n := range x.prof.Profile.PhoneNumbers {
		if number, ok := person.ParsePhone(n.Value); ok && (to == "" || n.Primary) {
			to, stored = number, n.Value
		}
	}
	return to, stored
}

// textedTo is what a code is good for that shows that the invited person has the number on record: the invitation, in this browser (hash of its
// cookie).
func (x *invitation) textedTo(browser string) proof.CodePurpose {
	to, _ := x.number()
	return proof.CodePurpose{Purpose: "invitation", Subject: x.id, Bound: browser, To: to, Limit: x.id}
}

// textInvited sends a code to the number on record. wait is how long none is sent.
func (s *Service) textInvited(r *http.Request, token, browser string) (wait time.Duration, err error) {
	code, err := proof.NewSentCode(s.random)
	if err != nil {
		return 0, err
	}
	now := s.now()
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		x, err := s.readInvitation(tx, token, now)
		if err != nil {
			return err
		}
		if findWay(s.invitationWays(x), "sms") == nil { // switched off meanwhile
			return person.ErrMismatch
		}
		if x.locked(browser) {
			return errLocked
		}
		c := x.textedTo(browser)
		t := person.Recipient{ID: x.id, Rec: &x.rec, Profile: &x.prof.Profile}
		wait, err = s.proof.SendCode(tx, c, code, now, func(tx storage.Tx, code string) error {
			return s.person.TextCode(tx, t, notify.SMSPhoneCode, c.To, code, now)
		})
		return err
	})
	return wait, err
}

// handleTextInvited serves the button that sends a code.
func (s *Service) handleTextInvited(w http.ResponseWriter, r *http.Request, x *invitation, browser string, ways []*invitationWay, way *invitationWay) {
	wait, err := s.textInvited(r, x.token, browser)
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, invitationCheckPath)
	case err != nil:
		s.failInvitation(w, r, err)
	case wait > 0:
		in := page.InvitationCheck{Problem: "problem.sent", Wait: front.RetryAfter(w, wait)}
		s.invitationCheckPage(w, r, x, ways, way, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, invitationCheckURL(way))
	}
}
