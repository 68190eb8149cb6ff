package signup

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sendSignUpCode sends a code to the address or the number that is confirmed next. The owner of an address that is
// taken gets a notice instead. wait is how long nothing is sent there.
func (s *Service) sendSignUpCode(q *webflow.Request, u *settings.Units, p *pendingSignUp) (wait time.Duration, err error) {
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return 0, err
	}
	now, t, part := s.deps.Now(), &p.typed, s.toConfirm(u, &p.typed)
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		var owner *person.Recipient
		if part == confirmEmail {
			if owner, err = s.findOwner(tx, t.Email); err != nil {
				return err
			}
		}
		wait, err = s.deps.Proof.SendCode(tx, p.codePurpose(part), code, now, func(tx storage.Tx, code string) error {
			data := map[string]string{"code": code}
			switch {
			case part == confirmPhone:
				return s.deps.SMS.Send(tx, notify.SMS{
					Kind: notify.SMSPhoneCode, To: t.Phone, Locales: []string{t.Locale},
					At: now, Until: now.Add(person.SentCodeLife), Data: data,
				})
			case owner != nil:
				return s.notifyTaken(tx, *owner, t, now)
			}
			// Without the name: a stranger could use it to send any text to the address of another person.
			return s.deps.Notify.Send(tx, notify.Notice{
				Kind: notify.SignUpCode, To: t.Email, Locales: []string{t.Locale}, At: now, Data: data,
			})
		})
		return err
	})
	return wait, err
}

// notifyTaken tells the owner of an address that it was used for a sign-up, and how to sign in.
func (s *Service) notifyTaken(tx storage.Tx, t person.Recipient, typed *signUpInput, now time.Time) error {
	n := t.Notice(notify.SignUpExisting, now)
	if n.To == "" || t.Record.State == person.Blocked || t.Record.State == person.Removed {
		n.Kind, n.To = notify.Nothing, typed.Email
	}
	n.Link = "/sign-in"
	return s.deps.Notify.Send(tx, n)
}

// notifyOwner is notifyTaken for a form without a code, a few times for each address.
func (s *Service) notifyOwner(tx storage.Tx, typed *signUpInput, now time.Time) error {
	owner, err := s.findOwner(tx, typed.Email)
	if err != nil || owner == nil {
		return err
	}
	key := secret.Hash(person.FoldEmail(typed.Email))
	wait, err := s.deps.Proof.CountRequest(tx, "sign-up-told", key, challenge.SentCodesMost, now)
	if err != nil || wait > 0 {
		return err
	}
	return s.notifyTaken(tx, *owner, typed, now)
}
