package recovery

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	forgotTextPath = forgotPath + "/text"

	textEvery = time.Minute // for one number, so no one can fill a phone with messages
)

// unknownNumber stands in for the number of an unknown person. (ITU-T E.164 has no country 999)
const unknownNumber = "+99900000000"

// textForm is the form for a code in a text message.
func (s *Service) textForm() *forgotForm {
	return &forgotForm{
		key: "forgot_text", path: forgotTextPath, next: forgotCodePath, exists: s.offersTextReset, field: accountField,
		links: func(a webflow.Detour) (list []web.FormLink) {
			if s.offersMailReset(a.U) {
				list = append(list, web.FormLink{Label: "forgot_text.mail", URL: webflow.WithSignIn(forgotPath, a.ID)})
			}
			return append(list, s.reminderLinks(a)...)
		},
	}
}

// showForgotText serves GET /forgot/text?flow=…: it asks for the username.
func (s *Service) showForgotText(q *webflow.Request) error { return s.showForgotForm(q, s.textForm()) }

// handleForgotText serves POST /forgot/text?flow=….
func (s *Service) handleForgotText(q *webflow.Request) error {
	return s.handleForgotForm(q, s.textForm(), func(q *webflow.Request, _ webflow.Detour, typed string) (time.Duration, error) {
		device := challenge.Hashed(s.deps.Session.DeviceToken(q.Request))
		return s.sendTextReset(q.Context(), typed, challenge.Hashed(s.deps.Federation.BrowserID(q.Request)), device, s.deps.Origin(q.Request))
	})
}

// sendTextReset sends a code to the phone of the person that the typed name or address belongs to. For an unknown
// person and for one without a number the same work is done, but the code never works and the message is not sent. wait
// is how long nothing is accepted. It does not depend on whether the person exists.
func (s *Service) sendTextReset(
	ctx context.Context, typed, browser, device string, from audit.Origin,
) (wait time.Duration, err error) {
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return 0, err
	}
	ev, err := s.deps.Person.NewEvents(from, passwordResetRequested)
	if err != nil {
		return 0, err
	}
	folded, now := s.deps.Person.FoldTyped(typed), s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		wait, err = s.deps.Proof.CountRequest(tx, "reset-address", challenge.Network(from.ClientIP), resetsPerAddress, now)
		if err != nil || wait > 0 {
			return err
		}
		rec := textResetRecord{Typed: secret.Hash(folded), To: unknownNumber, ExpiresAt: now.Add(person.SentCodeLife)}
		t, err := s.findTextRecipient(tx, typed)
		if err != nil {
			return err
		}
		kind, target := notify.Nothing, rec.To
		if t.ID != "" {
			kind, rec.PersonID, rec.To = notify.SMSResetCode, t.ID, person.TextNumber(t.Profile)
			known, err := s.deps.Proof.Knows(tx, person.Holder{ID: t.ID, Person: *t.Record}, device)
			if err != nil {
				return err
			}
			// Requests of strangers, however many, do not stop codes for a device on which the person has signed in.
			if target = rec.To; known {
				rec.Typed, target = secret.Hash(storage.Key(folded, device)), storage.Key(target, device)
			}
		}
		wait, err = s.deps.Proof.SendCode(tx, rec.codePurpose(browser), code, now, func(tx storage.Tx, code string) error {
			ready, err := challenge.OnceEvery(tx, "text-code", secret.Hash(target), textEvery, now)
			if err != nil {
				return err
			}
			if !ready {
				kind, rec.PersonID = notify.Nothing, "" // a code that was not sent never works
			}
			return s.deps.Person.TextCode(tx, t, kind, rec.To, code, now)
		})
		if err != nil || wait > 0 {
			return err
		}
		if err := textResets.Put(tx, browser, rec, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
			return err
		}
		return s.appendRequest(tx, t, ev[0], "by text message")
	})
	return wait, err
}

// findTextRecipient returns the only person matching the input who can reset the password by text message; zero value
// if none.
func (s *Service) findTextRecipient(tx storage.Tx, typed string) (match person.Recipient, err error) {
	none := person.Recipient{Profile: new(person.Profile)}
	list, err := s.findRecipients(tx, typed)
	if err != nil {
		return none, err
	}
	match = none
	for _, t := range list {
		ok, err := s.canTextReset(tx, t)
		if err != nil {
			return none, err
		}
		if !ok {
			continue
		}
		if match.ID != "" { // several persons have the address
			return none, nil
		}
		match = t
	}
	return match, nil
}

// canTextReset reports whether a person can reset the password by text message.
func (s *Service) canTextReset(tx storage.Tx, t person.Recipient) (bool, error) {
	if person.TextNumber(t.Profile) == "" || (t.Record.State != person.Active && t.Record.State != person.Inactive) {
		return false, nil
	}
	has, err := person.Passwords.Has(tx, t.ID)
	if err != nil || has {
		return has, err
	}
	names, err := s.providersOf(tx, t.ID, t.Record)
	return len(names) == 0, err
}

// codePurpose returns the purpose of the code. Waits are counted by the input alone: waits counted by the number would
// show which input belongs to a number, and whether there is one.
func (r *textResetRecord) codePurpose(browser string) challenge.CodePurpose {
	return challenge.CodePurpose{
		Purpose: "reset", Subject: browser, Bound: r.PersonID + ":" + r.Typed, To: r.Typed, Limit: "reset:" + r.Typed,
	}
}
