package recovery

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	forgotUsernamePath     = forgotPath + "/username"
	forgotUsernameSentPath = forgotUsernamePath + "/sent"

	remindersPerNumber  = 3   // in a window
	maxReminderUsername = 100 // characters of a username in a text message
)

// offersReminder reports whether a forgotten username can be sent in a text message.
func (s *Service) offersReminder(u *settings.Units) bool {
	return u.Features.UsernameReminderViaSMSEnabled && u.PasswordLogin() && s.deps.Person.SendsTexts(u)
}

// reminderLinks is the link to the page for a forgotten username, if that page exists.
func (s *Service) reminderLinks(a webflow.Detour) []web.FormLink {
	if !s.offersReminder(a.U) {
		return nil
	}
	return []web.FormLink{{Label: "forgot_username.link", URL: webflow.WithSignIn(forgotUsernamePath, a.ID)}}
}

// reminderForm is the form for the usernames of a phone number.
func (s *Service) reminderForm() *forgotForm {
	return &forgotForm{
		key: "forgot_username", path: forgotUsernamePath, next: forgotUsernameSentPath, exists: s.offersReminder,
		field: web.Field{
			Name: "number", Type: "tel", Label: "forgot_username.label", Hint: "forgot_username.hint", Autocomplete: "tel",
			MaxLength: person.MaxTag,
		},
	}
}

// showForgotUsername serves GET /forgot/username?flow=…: it asks for the phone number.
func (s *Service) showForgotUsername(q *webflow.Request) error {
	return s.showForgotForm(q, s.reminderForm())
}

// handleForgotUsername serves POST /forgot/username?flow=….
func (s *Service) handleForgotUsername(q *webflow.Request) error {
	f := s.reminderForm()
	a, typed, err := s.readForgot(q, f)
	if err != nil {
		return err
	}
	number, ok := person.ParsePhone(typed)
	typed = echo(typed, person.MaxTag)
	if !ok {
		return s.renderForgot(q, a, f, http.StatusUnprocessableEntity, typed, web.Form{Problem: "problem.phone"})
	}
	return s.answerForgot(q, a, f, typed, func() (time.Duration, error) {
		return s.remind(q.Context(), number, s.deps.Origin(q.Request))
	})
}

// showForgotUsernameSent serves GET /forgot/username/sent?flow=…: what happens next, whether the number is known or
// not.
func (s *Service) showForgotUsernameSent(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, forgotUsernamePath, s.offersReminder)
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, a, "", http.StatusOK, web.Form{
		Key: "forgot_username_sent", Next: webflow.SignInURL(a.ID),
		Links: []web.FormLink{{Label: "forgot_username_sent.again", URL: webflow.WithSignIn(forgotUsernamePath, a.ID)}},
	})
}

// remind sends the usernames of the persons with a verified number to that number, in one message. For an unknown
// number the same work is done, but the message is not sent. wait is how long nothing is accepted. It does not depend
// on whether the number is known.
func (s *Service) remind(ctx context.Context, number string, from audit.Origin) (wait time.Duration, err error) {
	ev, err := s.deps.Person.NewEvents(from, slices.Repeat([]audit.Type{usernameReminderSent}, maxAccounts)...)
	if err != nil {
		return 0, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if wait, err = s.countReminder(tx, number, from, now); err != nil || wait > 0 {
			return err
		}
		// Not counted with codes: a person who gets the username usually asks for a code next.
		ready, err := challenge.OnceEvery(tx, "text-usernames", secret.Hash(number), textEvery, now)
		if err != nil {
			return err
		}
		list, err := s.findByNumber(tx, number)
		if err != nil {
			return err
		}
		m := notify.SMS{Kind: notify.Nothing, To: number, At: now, Data: map[string]string{}}
		var names []string
		for i, t := range list {
			name, err := s.deps.Person.InPartition(t.Record.PartitionName(), t.Record.Username)
			if err != nil {
				return err
			}
			names = append(names, name)
			m = t.Text(notify.SMSUsernames, number, now)
			if ready {
				e := ev[i]
				e.PersonID, e.Partition = t.ID, t.Record.PartitionName()
				if err := s.deps.Events.Append(tx, e); err != nil {
					return err
				}
			}
		}
		if m.Data["usernames"] = strings.Join(names, ", "); !ready {
			m.Kind = notify.Nothing
		}
		return s.deps.SMS.Send(tx, m)
	})
	return wait, err
}

// countReminder counts a request by its address and its number. wait is how long nothing is accepted.
func (s *Service) countReminder(
	tx storage.Tx, number string, from audit.Origin, now time.Time,
) (wait time.Duration, err error) {
	wait, err = s.deps.Proof.CountRequest(tx, "remind-address", challenge.Network(from.ClientIP), resetsPerAddress, now)
	if err != nil || wait > 0 {
		return wait, err
	}
	return s.deps.Proof.CountRequest(tx, "remind-number", secret.Hash(number), remindersPerNumber, now)
}

// findByNumber returns the active persons with a verified number, at most maxAccounts.
func (s *Service) findByNumber(tx storage.Tx, number string) (out []person.Recipient, err error) {
	for e, err := range person.PhoneIndex.Scan(tx, storage.Range{Prefix: storage.Prefix(number), Limit: 4 * maxAccounts}) {
		if err != nil {
			return nil, err
		}
		id := storage.Parts(e.Key)[1]
		rec, err := person.Records.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		prof, err := person.ReadProfile(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		verified := slices.ContainsFunc(prof.Profile.PhoneNumbers, func(n person.PhoneNumber) bool {
			own, ok := person.ParsePhone(n.Value)
			return ok && own == number && n.Verified
		})
		if verified && rec.State == person.Active && len(rec.Username) <= maxReminderUsername && len(out) < maxAccounts {
			out = append(out, person.Recipient{ID: id, Record: &rec, Profile: &prof.Profile})
		}
	}
	return out, nil
}
