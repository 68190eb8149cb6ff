package enrol

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const LinkActivation proof.LinkKind = "activation"

const (
	ActivationPath = "/activate"

	activateDonePath     = ActivationPath + "/done"
	activationsPerPerson = 5 // links in a window
)

// Greet welcomes a new person, or sends the link that activates the account.
func (s *Service) Greet(tx storage.Tx, t person.Recipient, how person.Welcome, now time.Time) error {
	t.Stranger = how == person.ReasonWeb && !t.Profile.PrimaryEmail().Verified
	if !t.Rec.AwaitsNow() {
		if err := s.person.Notify(tx, t, notify.Welcome, how.Enabled, now); err != nil {
			return err
		}
		return s.askVerified(tx, t, how, now)
	}
	u, err := s.units(tx)
	if err != nil || !person.ActivatesByEmail(u) || s.notify == nil {
		return err
	}
	return s.sendActivation(tx, t, "", u, now)
}

// sendActivation sends the link that activates a person, in place of the one before. It knows the sign-in that it was asked for in, if any.
func (s *Service) sendActivation(tx storage.Tx, t person.Recipient, flow string, u *config.Units, now time.Time) error {
	t.Stranger = t.Rec.Awaits == person.ReasonWeb
	n := t.Notice(notify.Activation, now)
	if n.To == "" {
		return nil
	}
	if t.Rec.Awaits == person.ReasonWeb { // whoever has typed the name may have nothing to do with the address
		n.Name = ""
	}
	var err error
	data := map[string]string{proof.LinkTo: n.To, front.LinkFlow: flow}
	if n.Link, err = s.proof.NewLink(tx, LinkActivation, t.ID, data, ofSeconds(u.Features.PersonActivation.ExpirationTime), now); err != nil {
		return err
	}
	return s.notify.Send(tx, n)
}

// activateReader makes a person active who has shown that they read the address, which is verified then. proof.ErrNoLink: they are not waiting for it.
func (s *Service) activateReader(tx storage.Tx, id, address string, done event.Event, now time.Time) (person.Record, error) {
	rec, err := person.Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.AwaitsNow() {
		return rec, proof.ErrNoLink
	}
	if err != nil {
		return rec, err
	}
	prof, err := person.ReadProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	prof.Profile = prof.Profile.Clone()
	for i := range prof.Profile.EmailAddresses {
		if e := &prof.Profile.EmailAddresses[i]; person.FoldEmail(e.Value) == person.FoldEmail(address) {
			e.Verified = true
		}
	}
	rec.Take(&prof)
	if err := person.Profiles.Put(tx, id, prof, time.Time{}); err != nil {
		return rec, err
	}
	done.Actor, done.AgentUser = id, rec.Username
	return s.person.Activate(tx, id, rec, done, now)
}

// always is for pages that are there whatever is configured.
func always(*config.Units) bool { return true }

// activationOpened reads what the handlers of the page that the link leads to share. Otherwise it has written the answer and is not ok.
func (s *Service) activationOpened(w http.ResponseWriter, r *http.Request) (a front.Detour, o *proof.OpenLink, ok bool) {
	if a, ok = s.front.Detour(w, r, ActivationPath, always); !ok {
		return a, nil, false
	}
	if o, ok = s.front.OpenLink(w, r, LinkActivation, "/sign-in"); !ok {
		return a, nil, false
	}
	var err error
	if a.ID, a.Flow, err = s.front.SignInOf(r, o.Rec.Data[front.LinkFlow]); err != nil {
		s.front.Fail(w, r, err, ActivationPath)
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
	a.Flow.Demand.Client.Targets = append(slices.Clone(a.Flow.Demand.Client.Targets), front.TargetsOf(afterActivation(a.U))...)
	s.front.FormPage(w, r, a, o.Form(), http.StatusOK, page.Form{
		Key: "activate_link", Fill: []any{"to", o.Rec.Data[proof.LinkTo]}, Action: ActivationPath,
	})
}

// handleActivation serves POST /activate: the person is active, and the link used up.
func (s *Service) handleActivation(w http.ResponseWriter, r *http.Request) {
	a, o, ok := s.activationOpened(w, r)
	if !ok || !s.front.CheckLinkForm(w, r, o) {
		return
	}
	now := s.now()
	ev, err := s.person.NewEvents(s.origin(r), person.EventActivated)
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			link, err := s.proof.SpendLink(tx, LinkActivation, o.Token, now)
			if err != nil {
				return err
			}
			_, err = s.activateReader(tx, link.PersonID, link.Data[proof.LinkTo], event.Actor{}.Fill(ev[0], link.PersonID, "by a link"), now)
			return err
		})
	}
	if err != nil {
		s.front.FailLink(w, r, LinkActivation, "/sign-in", err)
		return
	}
	s.jar.Clear(w, proof.LinkCookieOf(LinkActivation))
	if to := afterActivation(a.U); to != "" && comesForNothing(a) {
		s.front.LeaveTo(w, r, to)
		return
	}
	s.front.Redirect(w, r, front.WithSignIn(activateDonePath, a.ID))
}

// showActivationDone serves GET /activate/done?flow=…: the way to sign in.
func (s *Service) showActivationDone(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, activateDonePath, always); ok {
		s.front.FormPage(w, r, a, "", http.StatusOK, page.Form{Key: "activate_done", Next: signInAt(a.ID)})
	}
}

// comesForNothing tells whether a person came to sign in for nothing in particular.
func comesForNothing(a front.Detour) bool {
	d := a.Flow.Demand
	return a.ID == "" || d.Client.ID == "" && (d.Return == "/sign-in" || d.Return == front.Landing(a.U, ""))
}

// byEmail tells whether a sign-in that waits for activation goes on by e-mail.
func (x *activation) byEmail() bool { return person.ActivatesByEmail(x.units) }

// byMailedCode tells whether the code is typed on the page, so that the sign-in goes on at once.
func (x *activation) byMailedCode() bool {
	return x.byEmail() && x.units.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled
}

// mailed is where the person is told how to activate the account.
func (s *Service) mailed(ctx context.Context, x *activation) (t person.Recipient, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		t, err = s.proof.LinkReached(tx, x.flow.Activating.PersonID, &x.person)
		return err
	})
	return t, err
}

// mailedCode is what a code is good for that is sent while the sign-in waits.
func (x *activation) mailedCode(t person.Recipient) proof.CodePurpose {
	return proof.CodePurpose{Purpose: "activation e-mail", Subject: x.id, Bound: t.ID, To: person.FoldEmail(t.Address()), Limit: "activation:" + t.ID}
}

// activateByEmailPage writes the page of a sign-in that waits for activation by e-mail: where the link was sent, or the code.
func (s *Service) activateByEmailPage(w http.ResponseWriter, r *http.Request, x *activation, status int, in page.Form) {
	t, err := s.mailed(r.Context(), x)
	sent, now := false, s.now()
	if err == nil && x.byMailedCode() {
		err = s.store.View(r.Context(), func(tx storage.Tx) (err error) {
			sent, err = s.proof.CodeWaits(tx, x.mailedCode(t), now)
			return err
		})
	}
	if err != nil {
		s.front.Fail(w, r, err, activateURL(x.id))
		return
	}
	in.Fill, in.Action, in.Links = []any{"to", person.MaskEmail(t.Address())}, activateURL(x.id), []page.FormLink{backToSignIn(x.id)}
	switch {
	case t.Address() == "" || s.notify == nil:
		in = page.Form{Key: "activate_none", Next: signInAt(x.id)}
	case sent:
		in.Key = "activate_code"
		in.Fields = page.Fields(in.Problem != "", page.Field{Name: "code", Type: "code", Label: "step_up.email.label", Required: true, MaxLength: proof.MaxCode, Invalid: in.Problem != ""})
		in.Other = &page.OtherButton{Name: "send", Label: "step_up.send_again"}
	case x.byMailedCode():
		in.Key, in.Send = "activate_send", true
	default:
		in.Key, in.Send = "activate_wait", true
		if r.Method == http.MethodGet && r.URL.Query().Get("sent") != "" {
			in.Good = "activate_wait.sent"
		}
	}
	s.front.FormPage(w, r, front.Detour{ID: x.id, Flow: x.flow, U: x.units}, activateForm(x), status, in)
}

// handleActivateByEmail serves the POST of that page, whose form was checked: a link or a code is sent, or the code activates the account.
func (s *Service) handleActivateByEmail(w http.ResponseWriter, r *http.Request, x *activation) {
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
		s.front.Enter(w, r, x.id, x.flow)
	case errors.Is(err, person.ErrMismatch), errors.Is(err, proof.ErrNoLink):
		s.log.Info("activation refused", zap.String("person_id", t.ID), zap.String("client_ip", s.origin(r).ClientIP))
		s.activateByEmailPage(w, r, x, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	default:
		s.front.Fail(w, r, err, activateURL(x.id))
	}
}

// activateByMailedCode activates the account and signs in, since the password was right in this browser a moment ago.
func (s *Service) activateByMailedCode(w http.ResponseWriter, r *http.Request, x *activation, t person.Recipient, code string) error {
	spend, err := s.proof.CheckCode(r.Context(), x.mailedCode(t), code)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(r), person.EventActivated)
	if err != nil {
		return err
	}
	return s.front.AdmitNew(w, r, x.flow, t.ID, "", func(tx storage.Tx, now time.Time) (person.Record, error) {
		if err := s.stillActivating(tx, x, now); err != nil {
			return x.person, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return x.person, cmp.Or(err, person.ErrMismatch)
		}
		return s.activateReader(tx, t.ID, t.Address(), event.Actor{}.Fill(ev[0], t.ID, "by a code"), now)
	})
}

// resendActivation sends the link or the code.
func (s *Service) resendActivation(w http.ResponseWriter, r *http.Request, x *activation) {
	wait, err := s.sendAwaited(r.Context(), x)
	switch {
	case err != nil:
		s.front.Fail(w, r, err, activateURL(x.id))
	case wait > 0:
		in, problem := page.Form{}, "problem.sent_link"
		if x.byMailedCode() {
			problem = "problem.sent"
		}
		front.Waits(w, &in, problem, wait)
		s.activateByEmailPage(w, r, x, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, activateURL(x.id)+"&sent=1")
	}
}

func (s *Service) sendAwaited(ctx context.Context, x *activation) (wait time.Duration, err error) {
	code, err := proof.NewSentCode(s.random)
	if err != nil {
		return 0, err
	}
	t, err := s.mailed(ctx, x)
	if err != nil || t.Address() == "" || s.notify == nil {
		return 0, err
	}
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		if !x.byMailedCode() {
			if wait, err = s.proof.CountRequest(tx, "activation-link", t.ID, activationsPerPerson, now); err != nil || wait > 0 {
				return err
			}
			return s.sendActivation(tx, t, x.id, x.units, now)
		}
		wait, err = s.proof.SendCode(tx, x.mailedCode(t), code, now, func(tx storage.Tx, code string) error {
			t.Stranger = t.Rec.Awaits == person.ReasonWeb
			n := t.Notice(notify.ActivationCode, now)
			n.Data["code"] = code
			return s.notify.Send(tx, n)
		})
		return err
	})
	return wait, err
}
