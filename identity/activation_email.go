package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const linkActivation linkKind = "activation"

const (
	activationPath = "/activate"

	activateDonePath     = activationPath + "/done"
	activationsPerPerson = 5 // links in a window
)

// activatesByEmail tells whether new persons are inactive until they have shown that they read their e-mail.
func activatesByEmail(u *config.Units) bool {
	return u.Features.PersonActivation.Enabled && u.Features.PersonActivation.Type == activationByEmail
}

// awaits tells whether a person is inactive until they have activated the account themselves. Whom an administrator has made inactive is not.
func (r *personRecord) awaits() bool { return r.State == Inactive && r.Awaits != unwelcomed }

// makeAwait makes a new person inactive who has to be activated first.
func (s *Service) makeAwait(tx storage.Tx, rec *personRecord, how welcome) error {
	u, err := s.Units(tx)
	if err == nil && rec.State == Active && startsInactive(u, how) {
		rec.State, rec.Awaits = Inactive, how
	}
	return err
}

// greet welcomes a new person, or sends the link that activates the account.
func (s *Service) greet(tx storage.Tx, t told, how welcome, now time.Time) error {
	t.stranger = how == onWeb && !t.profile.primaryEmail().Verified
	if !t.rec.awaits() {
		if err := s.tell(tx, t, notify.Welcome, how.enabled, now); err != nil {
			return err
		}
		return s.askVerified(tx, t, how, now)
	}
	u, err := s.Units(tx)
	if err != nil || !activatesByEmail(u) || s.Notify == nil {
		return err
	}
	return s.sendActivation(tx, t, "", u, now)
}

// sendActivation sends the link that activates a person, in place of the one before. It knows the sign-in that it was asked for in, if any.
func (s *Service) sendActivation(tx storage.Tx, t told, flow string, u *config.Units, now time.Time) error {
	t.stranger = t.rec.Awaits == onWeb
	n := t.notice(notify.Activation, now)
	if n.To == "" {
		return nil
	}
	if t.rec.Awaits == onWeb { // whoever has typed the name may have nothing to do with the address
		n.Name = ""
	}
	var err error
	data := map[string]string{linkTo: n.To, linkFlow: flow}
	if n.Link, err = s.newLink(tx, linkActivation, t.id, data, ofSeconds(u.Features.PersonActivation.ExpirationTime), now); err != nil {
		return err
	}
	return s.Notify.Send(tx, n)
}

// activateReader makes a person active who has shown that they read the address, which is verified then. errNoLink: they are not waiting for it.
func (s *Service) activateReader(tx storage.Tx, id, address string, done event.Event, now time.Time) (personRecord, error) {
	rec, err := persons.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.awaits() {
		return rec, errNoLink
	}
	if err != nil {
		return rec, err
	}
	prof, err := readProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	prof.Profile = prof.Profile.clone()
	for i := range prof.Profile.EmailAddresses {
		if e := &prof.Profile.EmailAddresses[i]; foldEmail(e.Value) == foldEmail(address) {
			e.Verified = true
		}
	}
	rec.take(&prof)
	if err := profiles.Put(tx, id, prof, time.Time{}); err != nil {
		return rec, err
	}
	done.Actor, done.AgentUser = id, rec.Username
	return s.activate(tx, id, rec, done, now)
}

// always is for pages that are there whatever is configured.
func always(*config.Units) bool { return true }

// activationOpened reads what the handlers of the page that the link leads to share. Otherwise it has written the answer and is not ok.
func (s *Service) activationOpened(w http.ResponseWriter, r *http.Request) (a aside, o *opened, ok bool) {
	if a, ok = s.beside(w, r, activationPath, always); !ok {
		return a, nil, false
	}
	if o, ok = s.openLink(w, r, linkActivation, "/sign-in"); !ok {
		return a, nil, false
	}
	var err error
	if a.id, a.flow, err = s.signInOf(r, o.rec.Data[linkFlow]); err != nil {
		s.fail(w, r, err, activationPath)
		return a, nil, false
	}
	return a, o, true
}

// showActivation serves GET /activate: it asks, and changes nothing.
func (s *Service) showActivation(w http.ResponseWriter, r *http.Request) {
	a, o, ok := s.activationOpened(w, r)
	if !ok {
		return
	}
	a.flow.Demand.Client.Targets = append(slices.Clone(a.flow.Demand.Client.Targets), targetsOf(afterActivation(a.u))...)
	s.formPage(w, r, a, o.form(), http.StatusOK, page.Form{
		Key: "activate_link", Fill: []any{"to", o.rec.Data[linkTo]}, Action: activationPath,
	})
}

// handleActivation serves POST /activate: the person is active, and the link used up.
func (s *Service) handleActivation(w http.ResponseWriter, r *http.Request) {
	a, o, ok := s.activationOpened(w, r)
	if !ok || !s.checkLinkForm(w, r, o) {
		return
	}
	now := s.Now()
	ev, err := s.newEvents(s.Origin(r), personActivated)
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			link, err := s.spendLink(tx, linkActivation, o.token, now)
			if err != nil {
				return err
			}
			_, err = s.activateReader(tx, link.PersonID, link.Data[linkTo], Actor{}.did(ev[0], link.PersonID, "by a link"), now)
			return err
		})
	}
	if err != nil {
		s.failLink(w, r, linkActivation, "/sign-in", err)
		return
	}
	s.jar.Clear(w, linkCookieOf(linkActivation))
	if to := afterActivation(a.u); to != "" && comesForNothing(a) {
		s.sendOn(w, r, to)
		return
	}
	s.redirect(w, r, withSignIn(activateDonePath, a.id))
}

// showActivationDone serves GET /activate/done?flow=…: the way to sign in.
func (s *Service) showActivationDone(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, activateDonePath, always); ok {
		s.formPage(w, r, a, "", http.StatusOK, page.Form{Key: "activate_done", Next: signInAt(a.id)})
	}
}

// comesForNothing tells whether a person came to sign in for nothing in particular.
func comesForNothing(a aside) bool {
	d := a.flow.Demand
	return a.id == "" || d.Client.ID == "" && (d.Return == "/sign-in" || d.Return == landing(a.u, ""))
}

// byEmail tells whether a sign-in that waits for activation goes on by e-mail.
func (x *activating) byEmail() bool { return activatesByEmail(x.units) }

// byMailedCode tells whether the code is typed on the page, so that the sign-in goes on at once.
func (x *activating) byMailedCode() bool {
	return x.byEmail() && x.units.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled
}

// mailed is where the person is told how to activate the account.
func (s *Service) mailed(ctx context.Context, x *activating) (t told, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		t, err = s.reached(tx, x.flow.Activating.PersonID, &x.person)
		return err
	})
	return t, err
}

// mailedCode is what a code is good for that is sent while the sign-in waits.
func (x *activating) mailedCode(t told) codeFor {
	return codeFor{Purpose: "activation e-mail", Subject: x.id, Bound: t.id, To: foldEmail(t.address()), Limit: "activation:" + t.id}
}

// activateByEmailPage writes the page of a sign-in that waits for activation by e-mail: where the link was sent, or the code.
func (s *Service) activateByEmailPage(w http.ResponseWriter, r *http.Request, x *activating, status int, in page.Form) {
	t, err := s.mailed(r.Context(), x)
	sent, now := false, s.Now()
	if err == nil && x.byMailedCode() {
		err = s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
			sent, err = s.codeWaits(tx, x.mailedCode(t), now)
			return err
		})
	}
	if err != nil {
		s.fail(w, r, err, activateURL(x.id))
		return
	}
	in.Fill, in.Action, in.Links = []any{"to", maskEmail(t.address())}, activateURL(x.id), []page.FormLink{backToSignIn(x.id)}
	switch {
	case t.address() == "" || s.Notify == nil:
		in = page.Form{Key: "activate_none", Next: signInAt(x.id)}
	case sent:
		in.Key = "activate_code"
		in.Fields = page.Fields(in.Problem != "", page.Field{Name: "code", Type: "code", Label: "step_up.email.label", Required: true, MaxLength: maxCode, Invalid: in.Problem != ""})
		in.Other = &page.OtherButton{Name: "send", Label: "step_up.send_again"}
	case x.byMailedCode():
		in.Key, in.Send = "activate_send", true
	default:
		in.Key, in.Send = "activate_wait", true
		if r.Method == http.MethodGet && r.URL.Query().Get("sent") != "" {
			in.Good = "activate_wait.sent"
		}
	}
	s.formPage(w, r, aside{id: x.id, flow: x.flow, u: x.units}, activateForm(x), status, in)
}

// handleActivateByEmail serves the POST of that page, whose form was checked: a link or a code is sent, or the code activates the account.
func (s *Service) handleActivateByEmail(w http.ResponseWriter, r *http.Request, x *activating) {
	code := r.PostForm.Get("code")
	switch {
	case !x.byMailedCode() || r.PostForm.Get("send") != "":
		s.resendActivation(w, r, x)
		return
	case code == "":
		s.activateByEmailPage(w, r, x, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code_missing"})
		return
	}
	t, err := s.mailed(r.Context(), x)
	if err == nil {
		err = s.activateByMailedCode(w, r, x, t, code)
	}
	switch {
	case err == nil:
		s.goIn(w, r, x.id, x.flow)
	case errors.Is(err, errMismatch), errors.Is(err, errNoLink):
		s.Log.Info("activation refused", zap.String("person_id", t.id), zap.String("client_ip", s.Origin(r).ClientIP))
		s.activateByEmailPage(w, r, x, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	default:
		s.fail(w, r, err, activateURL(x.id))
	}
}

// activateByMailedCode activates the account and signs in, since the password was right in this browser a moment ago.
func (s *Service) activateByMailedCode(w http.ResponseWriter, r *http.Request, x *activating, t told, code string) error {
	spend, err := s.checkCode(r.Context(), x.mailedCode(t), code)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(s.Origin(r), personActivated)
	if err != nil {
		return err
	}
	return s.admitNew(w, r, x.flow, t.id, "", func(tx storage.Tx, now time.Time) (personRecord, error) {
		if err := s.stillActivating(tx, x, now); err != nil {
			return x.person, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return x.person, cmpErr(err, errMismatch)
		}
		return s.activateReader(tx, t.id, t.address(), Actor{}.did(ev[0], t.id, "by a code"), now)
	})
}

// resendActivation sends the link or the code.
func (s *Service) resendActivation(w http.ResponseWriter, r *http.Request, x *activating) {
	wait, err := s.sendAwaited(r.Context(), x)
	switch {
	case err != nil:
		s.fail(w, r, err, activateURL(x.id))
	case wait > 0:
		in, problem := page.Form{}, "problem.sent_link"
		if x.byMailedCode() {
			problem = "problem.sent"
		}
		waits(w, &in, problem, wait)
		s.activateByEmailPage(w, r, x, http.StatusTooManyRequests, in)
	default:
		s.redirect(w, r, activateURL(x.id)+"&sent=1")
	}
}

func (s *Service) sendAwaited(ctx context.Context, x *activating) (wait time.Duration, err error) {
	code, err := newSentCode(s.Random)
	if err != nil {
		return 0, err
	}
	t, err := s.mailed(ctx, x)
	if err != nil || t.address() == "" || s.Notify == nil {
		return 0, err
	}
	now := s.Now()
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if !x.byMailedCode() {
			if wait, err = s.tooMany(tx, "activation-link", t.id, activationsPerPerson, now); err != nil || wait > 0 {
				return err
			}
			return s.sendActivation(tx, t, x.id, x.units, now)
		}
		wait, err = s.sendCode(tx, x.mailedCode(t), code, now, func(tx storage.Tx, code string) error {
			t.stranger = t.rec.Awaits == onWeb
			n := t.notice(notify.ActivationCode, now)
			n.Data["code"] = code
			return s.Notify.Send(tx, n)
		})
		return err
	})
	return wait, err
}
