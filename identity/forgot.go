package identity

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
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
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.Notify != nil
}

// offerBeside leads from the sign-in page to those beside it that there are.
func (s *Service) offerBeside(ctx context.Context, flow string, in *page.SignIn) error {
	u, err := s.configured(ctx)
	if err != nil {
		return err
	}
	if at := s.forgotAt(u); at != "" {
		in.ForgotURL = withSignIn(at, flow)
	}
	if s.canRemind(u) {
		in.RemindURL = withSignIn(forgotNamePath, flow)
	}
	if s.canSignUp(u) {
		in.SignUpURL = withSignIn(signUpPath, flow)
	}
	return nil
}

// withSignIn is a path of ours that knows which sign-in it belongs to.
func withSignIn(path, flow string) string {
	if flow == "" {
		return path
	}
	return path + "?" + url.Values{"flow": {flow}}.Encode()
}

// signInOf returns the sign-in under way that a request names, when it is of this browser and still good. There is none: "".
func (s *Service) signInOf(r *http.Request, id string) (string, flowRecord, error) {
	rec, err := s.readFlow(r.Context(), id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (!rec.ExpiresAt.After(s.Now()) || !s.jar.SameBrowser(r, rec.Browser)) {
		return "", flowRecord{}, nil
	}
	return id, rec, err
}

// signInAt is where a person goes to sign in: on with the sign-in that they came from, if there is one.
func signInAt(flow string) string {
	if flow == "" {
		return "/sign-in"
	}
	return flowURL(flow) + "&choose=1"
}

// backToSignIn is the link to there.
func backToSignIn(flow string) page.FormLink {
	return page.FormLink{Label: "forgot_sent.submit", URL: signInAt(flow)}
}

// aside is a request of a page beside the sign-in page: its flow, if it came from one, and what is configured.
type aside struct {
	id   string // "": none
	flow flowRecord
	u    *config.Units
}

// beside reads what the pages beside the sign-in page share. Otherwise it has written the answer, 404 where there is no such page, and is not ok.
func (s *Service) beside(w http.ResponseWriter, r *http.Request, path string, there func(*config.Units) bool) (a aside, ok bool) {
	var err error
	if a.u, err = s.configured(r.Context()); err != nil {
		s.fail(w, r, err, path)
		return a, false
	}
	if !there(a.u) {
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return a, false
	}
	if a.id, a.flow, err = s.signInOf(r, r.URL.Query().Get("flow")); err != nil {
		s.fail(w, r, err, path)
		return a, false
	}
	return a, true
}

// formPage writes a page that is one form.
func (s *Service) formPage(w http.ResponseWriter, r *http.Request, a aside, form string, status int, in page.Form) {
	if in.Action != "" {
		browser, err := s.jar.Browser(w, r, s.newID)
		if err != nil {
			s.fail(w, r, err, in.Action)
			return
		}
		in.CSRF = s.Pages.CSRF(browser, form)
	}
	s.Pages.Render(w, r, s.view(a.flow.Demand, "form", status, in))
}

// waits fills in that nothing is taken for a while.
func waits(w http.ResponseWriter, in *page.Form, problem string, wait time.Duration) {
	in.Problem, in.Wait = problem, int((wait+time.Second-1)/time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
}

// checkForm tells whether a POST is of that form. Otherwise it has written the answer.
func (s *Service) checkForm(w http.ResponseWriter, r *http.Request, form, again string) bool {
	err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), form)
	if err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, again)
	}
	return err == nil
}

// showForgot serves GET /forgot?flow=…: it asks whose password it is.
func (s *Service) showForgot(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, forgotPath, s.canReset); ok {
		s.forgotPage(w, r, a, http.StatusOK, a.flow.username(), page.Form{})
	}
}

func (s *Service) forgotPage(w http.ResponseWriter, r *http.Request, a aside, status int, typed string, in page.Form) {
	in.Key, in.Action = "forgot", withSignIn(forgotPath, a.id)
	in.Fields = page.Fields(in.Problem != "", page.Field{
		Name: "username", Label: "forgot.label", Value: typed, Autocomplete: "username", Required: true, Invalid: in.Problem == "problem.username",
	})
	if s.canResetByText(a.u) {
		in.Links = append(in.Links, page.FormLink{Label: "forgot.text_message", URL: withSignIn(forgotTextPath, a.id)})
	}
	in.Links = append(in.Links, s.remindLink(a)...)
	in.Links = append(in.Links, backToSignIn(a.id))
	s.formPage(w, r, a, "forgot:"+a.id, status, in)
}

// handleForgot serves POST /forgot?flow=…. The answer is the same whoever exists.
func (s *Service) handleForgot(w http.ResponseWriter, r *http.Request) {
	a, ok := s.beside(w, r, forgotPath, s.canReset)
	if !ok || !s.checkForm(w, r, "forgot:"+a.id, withSignIn(forgotPath, a.id)) {
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("username"))
	if typed == "" {
		s.forgotPage(w, r, a, http.StatusUnprocessableEntity, "", page.Form{Problem: "problem.username"})
		return
	}
	s.answerAlike(w, r, a, forgotten{
		path: forgotPath, next: sentPath, typed: shownAgain(typed, maxUsername), page: s.forgotPage,
		ask: func() (time.Duration, error) { return s.askReset(r.Context(), typed, a.id, s.Origin(r)) },
	})
}

// forgotten is what somebody has typed in a form that asks whose it is that was forgotten.
type forgotten struct {
	path, next string // of the form, and of the page that comes after it
	typed      string // is shown again
	page       func(w http.ResponseWriter, r *http.Request, a aside, status int, typed string, in page.Form)
	// ask does what is asked for, for somebody and nobody alike. wait is how long nothing is taken.
	ask func() (wait time.Duration, err error)
}

// answerAlike answers it, whoever exists.
func (s *Service) answerAlike(w http.ResponseWriter, r *http.Request, a aside, f forgotten) {
	again := withSignIn(f.path, a.id)
	if !s.Admit(r) {
		s.fail(w, r, errTooMany, again)
		return
	}
	wait, err := f.ask()
	switch {
	case err != nil:
		s.fail(w, r, err, again)
	case wait > 0:
		in := page.Form{}
		waits(w, &in, "problem.wait", wait)
		f.page(w, r, a, http.StatusTooManyRequests, f.typed, in)
	default:
		s.redirect(w, r, withSignIn(f.next, a.id))
	}
}

// shownAgain is what was typed where it can be shown, otherwise "".
func shownAgain(typed string, most int) string {
	if !isText(typed, most) {
		return ""
	}
	return typed
}

// showForgotSent serves GET /forgot/sent?flow=…: what comes now, for somebody and nobody alike.
func (s *Service) showForgotSent(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, forgotPath, s.canReset); ok {
		s.formPage(w, r, a, "", http.StatusOK, page.Form{
			Key: "forgot_sent", Next: signInAt(a.id), Links: []page.FormLink{{Label: "forgot_sent.again", URL: withSignIn(forgotPath, a.id)}},
		})
	}
}

// askReset sends a link for a new password to whoever what was typed means. For nobody it does the same work: a link that leads nowhere, and a
// notice that is not sent. wait is how long nothing is taken from this address.
func (s *Service) askReset(ctx context.Context, typed, flow string, from event.Origin) (wait time.Duration, err error) {
	ev, err := s.newEvents(from, slices.Repeat([]event.Type{passwordResetAsked}, maxAccounts)...)
	if err != nil {
		return 0, err
	}
	now := s.Now()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if wait, err = s.tooMany(tx, "reset-address", network(from.ClientIP), resetsPerAddress, now); err != nil || wait > 0 {
			return err
		}
		list, err := s.accountsOf(tx, typed)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			list = []told{{}}
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

// tooMany counts one more of something that is done at most so often in a window, and returns how long it is not done.
func (s *Service) tooMany(tx storage.Tx, what, whose string, most int, now time.Time) (wait time.Duration, err error) {
	c := counter{storage.Key(what, whose), most, false}
	rec, err := s.readFailures(tx, c, now)
	if err != nil {
		return 0, err
	}
	if wait = rec.Until.Sub(now); wait > 0 {
		return wait, nil
	}
	rec = s.fails(rec, c, now)
	return 0, failures.Put(tx, c.key, rec, s.forgets(rec))
}

// accountsOf returns the persons that a username means, or the e-mail address by which they are reached.
func (s *Service) accountsOf(tx storage.Tx, typed string) ([]told, error) {
	if isID(typed) {
		return nil, nil
	}
	id, rec, err := s.find(tx, typed)
	if err == nil {
		t, err := s.reached(tx, id, &rec)
		return []told{t}, err
	}
	if !errors.Is(err, ErrNoPerson) {
		return nil, err
	}
	partition, address, ok := s.split(typed)
	if !ok || !isEmail(address) {
		return nil, nil
	}
	ids, err := by(tx, personsByEmail, partition, foldEmail(address))
	if err != nil {
		return nil, err
	}
	var out []told
	for _, id := range ids {
		rec, err := persons.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := s.reached(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		if foldEmail(t.address()) == foldEmail(address) && len(out) < maxAccounts {
			out = append(out, t)
		}
	}
	return out, nil
}

// sendReset sends one person the link, or tells who has no password here where they sign in. Whoever gets no mail has the same work done.
func (s *Service) sendReset(tx storage.Tx, t told, typed, flow string, e event.Event, now time.Time) error {
	whom := t.id
	if whom == "" {
		folded, err := fold(typed)
		if err != nil {
			folded = foldEmail(typed)
		}
		whom = "name:" + secret.Hash(folded)
	}
	wait, err := s.tooMany(tx, "reset-person", whom, resetsPerPerson, now)
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
	path, err := s.newLink(tx, linkReset, whom, map[string]string{linkTo: to, linkFlow: flow}, resetLife, now)
	if err != nil {
		return err
	}
	if n.Kind != notify.ResetNoPassword {
		n.Link = path
	}
	if err := s.Notify.Send(tx, n); err != nil {
		return err
	}
	e.PersonID = t.id
	if t.rec != nil {
		e.Partition = t.rec.partition()
	}
	return s.Events.Append(tx, e)
}

// linkFlow names, in a link's data, the sign-in that it was asked for in.
const linkFlow = "flow"

// resetNotice is what a person is told who has asked for a new password: the link, or by whom they sign in, or nothing at all.
func (s *Service) resetNotice(tx storage.Tx, t told, now time.Time) (notify.Notice, error) {
	nothing := notify.Notice{Kind: notify.Nothing, To: "nobody@example.invalid", At: now, Data: map[string]string{"username": "nobody@example.invalid"}}
	if t.id == "" || t.address() == "" || (t.rec.State != Active && t.rec.State != Inactive) {
		return nothing, nil
	}
	has, err := passwords.Has(tx, t.id)
	if err != nil {
		return nothing, err
	}
	names, err := s.providersOf(tx, t.id, t.rec)
	if err != nil {
		return nothing, err
	}
	if has || len(names) == 0 {
		return t.notice(notify.ResetLink, now), nil
	}
	u, err := s.Units(tx)
	if err != nil || !u.EmailNotifications.PasswordResetForAccountWithoutPassword {
		return nothing, err
	}
	n := t.notice(notify.ResetNoPassword, now)
	n.Data["provider"], n.Link = strings.Join(names, ", "), "/sign-in"
	return n, nil
}

// providersOf returns the names of the providers that sign a person in.
func (s *Service) providersOf(tx storage.Tx, id string, rec *personRecord) (names []string, err error) {
	if rec.External != "" {
		names = append(names, s.providerName(storage.Parts(rec.External)[0]))
	}
	for e, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(id)}) {
		if err != nil {
			return nil, err
		}
		if name := s.providerName(storage.Parts(e.Key)[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
