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
	forgotPath = "/forgot"
	sentPath   = forgotPath + "/sent"

	resetLife        = 30 * time.Minute
	resetsPerPerson  = 5  // mails in a window: nobody's mailbox is filled
	resetsPerAddress = 30 // requests in a window
	maxAccounts      = 5  // of one e-mail address that are told
)

// canReset tells whether a person who has forgotten the password can get another.
func (s *Service) canReset(u *config.Units) bool {
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.notify != nil
}

// OfferBeside leads from the sign-in page to those beside it that there are.
func (s *Service) OfferBeside(ctx context.Context, flow string, in *page.SignIn) error {
	u, err := s.person.Settings(ctx)
	if err != nil {
		return err
	}
	if at := s.forgotAt(u); at != "" {
		in.ForgotURL = front.WithSignIn(at, flow)
	}
	if s.canRemind(u) {
		in.RemindURL = front.WithSignIn(forgotNamePath, flow)
	}
	if s.canSignUp(u) {
		in.SignUpURL = front.WithSignIn(signUpPath, flow)
	}
	return nil
}

// signInAt is where a person goes to sign in: on with the sign-in that they came from, if there is one.
func signInAt(flow string) string {
	if flow == "" {
		return "/sign-in"
	}
	return front.FlowURL(flow) + "&choose=1"
}

// backToSignIn is the link to there.
func backToSignIn(flow string) page.FormLink {
	return page.FormLink{Label: "forgot_sent.submit", URL: signInAt(flow)}
}

// showForgot serves GET /forgot?flow=…: it asks whose password it is.
func (s *Service) showForgot(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, forgotPath, s.canReset); ok {
		s.forgotPage(w, r, a, http.StatusOK, a.Flow.Username(), page.Form{})
	}
}

func (s *Service) forgotPage(w http.ResponseWriter, r *http.Request, a front.Detour, status int, typed string, in page.Form) {
	in.Key, in.Action = "forgot", front.WithSignIn(forgotPath, a.ID)
	in.Fields = page.Fields(in.Problem != "", page.Field{
		Name: "username", Label: "forgot.label", Value: typed, Autocomplete: "username", Required: true, Invalid: in.Problem == "problem.username",
	})
	if s.canResetByText(a.U) {
		in.Links = append(in.Links, page.FormLink{Label: "forgot.text_message", URL: front.WithSignIn(forgotTextPath, a.ID)})
	}
	in.Links = append(in.Links, s.remindLink(a)...)
	in.Links = append(in.Links, backToSignIn(a.ID))
	s.front.FormPage(w, r, a, "forgot:"+a.ID, status, in)
}

// handleForgot serves POST /forgot?flow=…. The answer is the same whoever exists.
func (s *Service) handleForgot(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Detour(w, r, forgotPath, s.canReset)
	if !ok || !s.front.CheckPost(w, r, "forgot:"+a.ID, front.WithSignIn(forgotPath, a.ID)) {
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("username"))
	if typed == "" {
		s.forgotPage(w, r, a, http.StatusUnprocessableEntity, "", page.Form{Problem: "problem.username"})
		return
	}
	s.answerAlike(w, r, a, reminder{
		path: forgotPath, next: sentPath, typed: shownAgain(typed, person.MaxUsername), page: s.forgotPage,
		ask: func() (time.Duration, error) { return s.askReset(r.Context(), typed, a.ID, s.origin(r)) },
	})
}

// reminder is what somebody has typed in a form that asks whose it is that was forgotten.
type reminder struct {
	path, next string // of the form, and of the page that comes after it
	typed      string // is shown again
	page       func(w http.ResponseWriter, r *http.Request, a front.Detour, status int, typed string, in page.Form)
	// ask does what is asked for, for somebody and nobody alike. wait is how long nothing is taken.
	ask func() (wait time.Duration, err error)
}

// answerAlike answers it, whoever exists.
func (s *Service) answerAlike(w http.ResponseWriter, r *http.Request, a front.Detour, f reminder) {
	again := front.WithSignIn(f.path, a.ID)
	if !s.admit(r) {
		s.front.Fail(w, r, front.ErrTooMany, again)
		return
	}
	wait, err := f.ask()
	switch {
	case err != nil:
		s.front.Fail(w, r, err, again)
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.wait", wait)
		f.page(w, r, a, http.StatusTooManyRequests, f.typed, in)
	default:
		s.front.Redirect(w, r, front.WithSignIn(f.next, a.ID))
	}
}

// shownAgain is what was typed where it can be shown, otherwise "".
func shownAgain(typed string, most int) string {
	if !person.IsText(typed, most) {
		return ""
	}
	return typed
}

// showForgotSent serves GET /forgot/sent?flow=…: what comes now, for somebody and nobody alike.
func (s *Service) showForgotSent(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, forgotPath, s.canReset); ok {
		s.front.FormPage(w, r, a, "", http.StatusOK, page.Form{
			Key: "forgot_sent", Next: signInAt(a.ID), Links: []page.FormLink{{Label: "forgot_sent.again", URL: front.WithSignIn(forgotPath, a.ID)}},
		})
	}
}

// askReset sends a link for a new password to whoever what was typed means. For nobody it does the same work: a link that leads nowhere, and a
// notice that is not sent. wait is how long nothing is taken from this address.
func (s *Service) askReset(ctx context.Context, typed, flow string, from event.Origin) (wait time.Duration, err error) {
	ev, err := s.person.NewEvents(from, slices.Repeat([]event.Type{passwordResetAsked}, maxAccounts)...)
	if err != nil {
		return 0, err
	}
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		if wait, err = s.proof.CountRequest(tx, "reset-address", proof.Network(from.ClientIP), resetsPerAddress, now); err != nil || wait > 0 {
			return err
		}
		list, err := s.accountsOf(tx, typed)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			list = []person.Recipient{{}}
		}
		for i, t := range list {
			if err := s.sendReset(tx, t, typed, flow, ev[i], now); err != nil {
				return err
			}
		}
		return nil
	})
	return wait, err
}

// accountsOf returns the persons that a username means, or the e-mail address by which they are reached.
func (s *Service) accountsOf(tx storage.Tx, typed string) ([]person.Recipient, error) {
	if person.IsID(typed) {
		return nil, nil
	}
	id, rec, err := s.person.FindMany(tx, typed)
	if err == nil {
		t, err := s.proof.LinkReached(tx, id, &rec)
		return []person.Recipient{t}, err
	}
	if !errors.Is(err, person.ErrNoPerson) {
		return nil, err
	}
	partition, address, ok := s.person.SplitName(typed)
	if !ok || !person.IsEmail(address) {
		return nil, nil
	}
	ids, err := person.ActorBy(tx, person.EmailIndex, partition, person.FoldEmail(address))
	if err != nil {
		return nil, err
	}
	var out []person.Recipient
	for _, id := range ids {
		rec, err := person.Records.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := s.proof.LinkReached(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		if person.FoldEmail(t.Address()) == person.FoldEmail(address) && len(out) < maxAccounts {
			out = append(out, t)
		}
	}
	return out, nil
}

// sendReset sends one person the link, or tells who has no password here where they sign in. Whoever gets no mail has the same work done.
func (s *Service) sendReset(tx storage.Tx, t person.Recipient, typed, flow string, e event.Event, now time.Time) error {
	whom := t.ID
	if whom == "" {
		folded, err := person.Fold(typed)
		if err != nil {
			folded = person.FoldEmail(typed)
		}
		whom = "name:" + secret.Hash(folded)
	}
	wait, err := s.proof.CountRequest(tx, "reset-person", whom, resetsPerPerson, now)
	if err != nil {
		return err
	}
	n, err := s.resetNotice(tx, t, now)
	if err != nil {
		return err
	}
	to := n.To
	if wait > 0 || n.Kind != notify.ResetLink {
		whom = "nobody:" + secret.Hash(whom) // the link that is there stays
	}
	if wait > 0 {
		n.Kind = notify.Nothing
	}
	path, err := s.proof.NewLink(tx, LinkReset, whom, map[string]string{proof.LinkTo: to, front.LinkFlow: flow}, resetLife, now)
	if err != nil {
		return err
	}
	if n.Kind != notify.ResetNoPassword {
		n.Link = path
	}
	if err := s.notify.Send(tx, n); err != nil {
		return err
	}
	e.PersonID = t.ID
	if t.Rec != nil {
		e.Partition = t.Rec.PartitionName()
	}
	return s.events.Append(tx, e)
}

// resetNotice is what a person is told who has asked for a new password: the link, or by whom they sign in, or nothing at all.
func (s *Service) resetNotice(tx storage.Tx, t person.Recipient, now time.Time) (notify.Notice, error) {
	nothing := notify.Notice{Kind: notify.Nothing, To: "nobody@example.invalid", At: now, Data: map[string]string{"username": "nobody@example.invalid"}}
	if t.ID == "" || t.Address() == "" || (t.Rec.State != person.Active && t.Rec.State != person.Inactive) {
		return nothing, nil
	}
	has, err := person.Passwords.Has(tx, t.ID)
	if err != nil {
		return nothing, err
	}
	names, err := s.providersOf(tx, t.ID, t.Rec)
	if err != nil {
		return nothing, err
	}
	if has || len(names) == 0 {
		return t.Notice(notify.ResetLink, now), nil
	}
	u, err := s.units(tx)
	if err != nil || !u.EmailNotifications.PasswordResetForAccountWithoutPassword {
		return nothing, err
	}
	n := t.Notice(notify.ResetNoPassword, now)
	n.Data["provider"], n.Link = strings.Join(names, ", "), "/sign-in"
	return n, nil
}

// providersOf returns the names of the providers that sign a person in.
func (s *Service) providersOf(tx storage.Tx, id string, rec *person.Record) (names []string, err error) {
	if rec.External != "" {
		names = append(names, s.federation.ProviderName(storage.Parts(rec.External)[0]))
	}
	for e, err := range person.IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(id)}) {
		if err != nil {
			return nil, err
		}
		if name := s.federation.ProviderName(storage.Parts(e.Key)[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
