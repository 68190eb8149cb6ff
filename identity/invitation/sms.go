package invitation

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// number returns the phone number of the person that a code is sent to, as sent and as stored. It is not verified yet.
func (x *invitation) number() (to, stored string) {
	for _, n := range x.prof.Profile.PhoneNumbers {
		if number, ok := person.ParsePhone(n.Value); ok && (to == "" || n.Primary) {
			to, stored = number, n.Value
		}
	}
	return to, stored
}

// smsPurpose returns the purpose of a code to the number of the invited person: the invitation, in one browser (hash of
// its cookie).
func (x *invitation) smsPurpose(browser string) challenge.CodePurpose {
	to, _ := x.number()
	return challenge.CodePurpose{Purpose: "invitation", Subject: x.id, Bound: browser, To: to, Limit: x.id}
}

// handleInvitationText serves the button that sends a code.
func (s *Service) handleInvitationText(q *webflow.Request, x *invitation, way *invitationWay) error {
	wait, err := s.sendInvitationText(q, x.token, x.browser)
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(invitationCheckPath)
	case err != nil:
		return s.invitationError(q, err)
	case wait > 0:
		in := web.InvitationCheck{Problem: "problem.sent", Wait: webflow.RetryAfter(q.W, wait)}
		return s.renderInvitationCheck(q, x, way, http.StatusTooManyRequests, in)
	}
	return q.Redirect(way.url())
}

// sendInvitationText sends a code to the number of the invited person. wait is how long none is sent.
func (s *Service) sendInvitationText(q *webflow.Request, token, browser string) (wait time.Duration, err error) {
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return 0, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		x, err := s.readInvitation(tx, token, now)
		if err != nil {
			return err
		}
		if findWay(s.waysOf(x), "sms") == nil { // switched off meanwhile
			return person.ErrMismatch
		}
		if x.isLocked(browser) {
			return errLocked
		}
		c := x.smsPurpose(browser)
		t := person.Recipient{ID: x.id, Record: &x.rec, Profile: &x.prof.Profile}
		wait, err = s.deps.Proof.SendCode(tx, c, code, now, func(tx storage.Tx, code string) error {
			return s.deps.Person.TextCode(tx, t, notify.SMSPhoneCode, c.To, code, now)
		})
		return err
	})
	return wait, err
}
