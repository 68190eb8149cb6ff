package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
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
	return u.Features.UsernameReminderViaSMSEnabled && u.PasswordLogin() && s.sendsTexts(u)
}

// remindLink leads to the page for a forgotten username, where there is one.
func (s *Service) remindLink(a aside) []page.FormLink {
	if !s.canRemind(a.u) {
		return nil
	}
	return []page.FormLink{{Label: "forgot_username.link", URL: withSignIn(forgotNamePath, a.id)}}
}

// showForgotUsername serves GET /forgot/username?flow=…: it asks for the telephone number.
func (s *Service) showForgotUsername(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, forgotNamePath, s.canRemind); ok {
		s.forgotUsernamePage(w, r, a, http.StatusOK, "", page.Form{})
	}
}

func (s *Service) forgotUsernamePage(w http.ResponseWriter, r *http.Request, a aside, status int, typed string, in page.Form) {
	in.Key, in.Action, in.Links = "forgot_username", withSignIn(forgotNamePath, a.id), []page.FormLink{backToSignIn(a.id)}
	in.Fields = page.Fields(in.Problem != "", page.Field{
		Name: "number", Type: "tel", Label: "forgot_username.label", Hint: "forgot_username.hint", Value: typed, Autocomplete: "tel", Required: true, Invalid: in.Problem == "problem.phone", MaxLength: maxTag,
	})
	s.formPage(w, r, a, "forgot_username:"+a.id, status, in)
}

// handleForgotUsername serves POST /forgot/username?flow=…. The answer is the same whoever exists.
func (s *Service) handleForgotUsername(w http.ResponseWriter, r *http.Request) {
	a, ok := s.beside(w, r, forgotNamePath, s.canRemind)
	if !ok || !s.checkForm(w, r, "forgot_username:"+a.id, withSignIn(forgotNamePath, a.id)) {
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("number"))
	shown := shownAgain(typed, maxTag)
	number, ok := parsePhone(typed)
	if !ok {
		s.forgotUsernamePage(w, r, a, http.StatusUnprocessableEntity, shown, page.Form{Problem: "problem.phone"})
		return
	}
	s.answerAlike(w, r, a, forgotten{
		path: forgotNamePath, next: forgotNameSentPath, typed: shown, page: s.forgotUsernamePage,
		ask: func() (time.Duration, error) { return s.remind(r.Context(), number, s.Origin(r)) },
	})
}

// showForgotUsernameSent serves GET /forgot/username/sent?flow=…: what comes now, for somebody and nobody alike.
func (s *Service) showForgotUsernameSent(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, forgotNamePath, s.canRemind); ok {
		s.formPage(w, r, a, "", http.StatusOK, page.Form{
			Key: "forgot_username_sent", Next: signInAt(a.id), Links: []page.FormLink{{Label: "forgot_username_sent.again", URL: withSignIn(forgotNamePath, a.id)}},
		})
	}
}

// remind tells a telephone the usernames of the persons whose verified number it is, in one message. For nobody's number it does the same work, and the
// message is not sent. wait is how long nothing is taken; it says nothing about who there is.
func (s *Service) remind(ctx context.Context, number string, from event.Origin) (wait time.Duration, err error) {
	ev, err := s.newEvents(from, slices.Repeat([]event.Type{usernameReminded}, maxAccounts)...)
	if err != nil {
		return 0, err
	}
	now := s.Now()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if wait, err = s.tooMany(tx, "remind-address", network(from.ClientIP), resetsPerAddress, now); err != nil || wait > 0 {
			return err
		}
		if wait, err = s.tooMany(tx, "remind-number", secret.Hash(number), remindersPerNumber, now); err != nil || wait > 0 {
			return err
		}
		// Apart from codes: whoever is told the username asks for one next.
		again, err := onceEvery(tx, "text-usernames", secret.Hash(number), textEvery, now)
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
			name, err := s.InPartition(t.rec.partition(), t.rec.Username)
			if err != nil {
				return err
			}
			names = append(names, name)
			m = t.text(notify.SMSUsernames, number, now)
			if again {
				e := ev[i]
				e.PersonID, e.Partition = t.id, t.rec.partition()
				if err := s.Events.Append(tx, e); err != nil {
					return err
				}
			}
		}
		if m.Data["usernames"] = strings.Join(names, ", "); !again {
			m.Kind = notify.Nothing
		}
		return s.SMS.Send(tx, m)
	})
	return wait, err
}

// personsAtNumber returns the persons who have shown that a number is theirs and who can sign in, a few at most.
func (s *Service) personsAtNumber(tx storage.Tx, number string) (out []told, err error) {
	for e, err := range personsByPhone.Scan(tx, storage.Range{Prefix: storage.Prefix(number), Limit: 4 * maxAccounts}) {
		if err != nil {
			return nil, err
		}
		id := storage.Parts(e.Key)[1]
		rec, err := persons.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		prof, err := readProfile(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		shown := slices.ContainsFunc(prof.Profile.PhoneNumbers, func(n PhoneNumber) bool {
			own, ok := parsePhone(n.Value)
			return ok && own == number && n.Verified
		})
		if shown && rec.State == Active && len(rec.Username) <= maxReminded && len(out) < maxAccounts {
			out = append(out, told{id: id, rec: &rec, profile: &prof.Profile})
		}
	}
	return out, nil
}
