package enrol

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	forgotNamePath     = forgotPath + "/username"
	forgotNameSentPath = forgotNamePath + "/sent"

	remindersPerNumber = 3   // in a window
	maxReminded        = 100 // characters of a username in a text message
)

// canRemind tells whether a person who has forgotten the username can get it on the telephone.
func (s *Service) canRemind(u *config.Units) bool {
	return u.Features.UsernameReminderViaSMSEnabled && u.PasswordLogin() && s.person.SendsTexts(u)
}

// remindLink leads to the page for a forgotten username, where there is one.
func (s *Service) remindLink(a front.Detour) []page.FormLink {
	if !s.canRemind(a.U) {
		return nil
	}
	return []page.FormLink{{Label: "forgot_username.link", URL: front.WithSignIn(forgotNamePath, a.ID)}}
}

// showForgotUsername serves GET /forgot/username?flow=…: it asks for the telephone number.
func (s *Service) showForgotUsername(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, forgotNamePath, s.canRemind); ok {
		s.forgotUsernamePage(w, r, a, http.StatusOK, "", page.Form{})
	}
}

func (s *Service) forgotUsernamePage(w http.ResponseWriter, r *http.Request, a front.Detour, status int, typed string, in page.Form) {
	in.Key, in.Action, in.Links = "forgot_username", front.WithSignIn(forgotNamePath, a.ID), []page.FormLink{backToSignIn(a.ID)}
	in.Fields = page.Fields(in.Problem != "", page.Field{
		Name: "number", Type: "tel", Label: "forgot_username.label", Hint: "forgot_username.hint", Value: typed, Autocomplete: "tel", Required: true, Invalid: in.Problem == "problem.phone", MaxLength: person.MaxTag,
	})
	s.front.FormPage(w, r, a, "forgot_username:"+a.ID, status, in)
}

// handleForgotUsername serves POST /forgot/username?flow=…. The answer is the same whoever exists.
func (s *Service) handleForgotUsername(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Detour(w, r, forgotNamePath, s.canRemind)
	if !ok || !s.front.CheckPost(w, r, "forgot_username:"+a.ID, front.WithSignIn(forgotNamePath, a.ID)) {
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("number"))
	shown := shownAgain(typed, person.MaxTag)
	number, ok := person.ParsePhone(typed)
	if !ok {
		s.forgotUsernamePage(w, r, a, http.StatusUnprocessableEntity, shown, page.Form{Problem: "problem.phone"})
		return
	}
	s.answerAlike(w, r, a, reminder{
		path: forgotNamePath, next: forgotNameSentPath, typed: shown, page: s.forgotUsernamePage,
		ask: func() (time.Duration, error) { return s.remind(r.Context(), number, s.origin(r)) },
	})
}

// showForgotUsernameSent serves GET /forgot/username/sent?flow=…: what comes now, for somebody and nobody alike.
func (s *Service) showForgotUsernameSent(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, forgotNamePath, s.canRemind); ok {
		s.front.FormPage(w, r, a, "", http.StatusOK, page.Form{
			Key: "forgot_username_sent", Next: signInAt(a.ID), Links: []page.FormLink{{Label: "forgot_username_sent.again", URL: front.WithSignIn(forgotNamePath, a.ID)}},
		})
	}
}

// remind tells a telephone the usernames of the persons whose verified number it is, in one message. For nobody's number it does the same work, and the
// message is not sent. wait is how long nothing is taken; it says nothing about who there is.
func (s *Service) remind(ctx context.Context, number string, from event.Origin) (wait time.Duration, err error) {
	ev, err := s.person.NewEvents(from, slices.Repeat([]event.Type{usernameReminded}, maxAccounts)...)
	if err != nil {
		return 0, err
	}
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		if wait, err = s.proof.CountRequest(tx, "remind-address", proof.Network(from.ClientIP), resetsPerAddress, now); err != nil || wait > 0 {
			return err
		}
		if wait, err = s.proof.CountRequest(tx, "remind-number", secret.Hash(number), remindersPerNumber, now); err != nil || wait > 0 {
			return err
		}
		// Apart from codes: whoever is told the username asks for one next.
		again, err := proof.OnceEvery(tx, "text-usernames", secret.Hash(number), textEvery, now)
		if err != nil {
			return err
		}
		list, err := s.personsAtNumber(tx, number)
		if err != nil {
			return err
		}
		m := notify.SMS{Kind: notify.Nothing, To: number, At: now, Data: map[string]string{}}
		var names []string
		for i, t := range list {
			name, err := s.person.InPartition(t.Rec.PartitionName(), t.Rec.Username)
			if err != nil {
				return err
			}
			names = append(names, name)
			m = t.Text(notify.SMSUsernames, number, now)
			if again {
				e := ev[i]
				e.PersonID, e.Partition = t.ID, t.Rec.PartitionName()
				if err := s.events.Append(tx, e); err != nil {
					return err
				}
			}
		}
		if m.Data["usernames"] = strings.Join(names, ", "); !again {
			m.Kind = notify.Nothing
		}
		return s.sms.Send(tx, m)
	})
	return wait, err
}

// personsAtNumber returns the persons who have shown that a number is theirs and who can sign in, a few at most.
func (s *Service) personsAtNumber(tx storage.Tx, number string) (out []person.Recipient, err error) {
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
		shown := slices.ContainsFunc(prof.Profile.PhoneNumbers, func(n person.PhoneNumber) bool {
			own, ok := person.ParsePhone(n.Value)
			return ok && own == number && n.Verified
		})
		if shown && rec.State == person.Active && len(rec.Username) <= maxReminded && len(out) < maxAccounts {
			out = append(out, person.Recipient{ID: id, Rec: &rec, Profile: &prof.Profile})
		}
	}
	return out, nil
}
