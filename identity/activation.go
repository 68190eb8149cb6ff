package identity

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	activatePath     = "/sign-in/activate"
	activatedPath    = "/sign-in/activated"
	activationProof  = 15 * time.Minute // how long a right password is good for the page of the code
	activationReason = "by a delivered code"
)

func activateURL(flow string) string { return activatePath + "?" + url.Values{"flow": {flow}}.Encode() }

// startsInactive tells whether somebody whom an administrator makes, or who signs up, has to be activated first. Whoever the configuration file declares, and whom another
// system has known already, has not.
func startsInactive(u *config.Units, how welcome) bool {
	return u.Features.PersonActivation.Enabled && (how == onAPI || how == onWeb)
}

// activationDelivery are the terms of codes that activate persons.
func activationDelivery(_ storage.Tx, _ string, rec *personRecord, u *config.Units) (deliveredTerms, error) {
	a := &u.Features.PersonActivation
	switch {
	case !a.Enabled || a.Type != activationByCode:
		return deliveredTerms{}, ErrCodesOff
	case rec.State != Inactive:
		return deliveredTerms{}, &StateError{rec.State}
	}
	c := &a.ExternallyDeliveredCode
	return deliveredTerms{Life: ofSeconds(a.ExpirationTime), After: ofSeconds(c.UnavailabilityTime), Every: ofSeconds(c.ResendCodeMinimumPeriod)}, nil
}

func ofSeconds(n int) time.Duration { return time.Duration(n) * time.Second }

// leadToActivation sends a person whose password was right to where they are activated. The sign-in waits for it.
func (s *Service) leadToActivation(w http.ResponseWriter, r *http.Request, id string, f flowRecord, who *inactiveError) {
	ev, err := s.newEvents(s.Origin(r), loginFailed)
	if err == nil {
		now := s.Now()
		f.Activating = &activatingRecord{PersonID: who.account.id, Epoch: who.account.person.Epoch, At: now}
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			e := ev[0]
			e.PersonID, e.ClientID, e.Reason = who.account.id, f.Demand.Client.ID, "the person is inactive"
			if err := s.Events.Append(tx, e); err != nil {
				return err
			}
			return flows.Put(tx, id, f, f.ExpiresAt.Add(flowMemory))
		})
	}
	if err != nil {
		s.fail(w, r, err, flowURL(id))
		return
	}
	s.redirect(w, r, activateURL(id))
}

// activating is a sign-in that waits for the person to be activated.
type activating struct {
	id     string
	flow   flowRecord
	person personRecord
	units  *config.Units
}

// readActivating reads it. Otherwise it has written the answer and is not ok.
func (s *Service) readActivating(w http.ResponseWriter, r *http.Request) (x *activating, ok bool) {
	x = new(activating)
	if x.id, x.flow, ok = s.flow(w, r); !ok {
		return nil, false
	}
	if err := s.isOpen(r.Context()); err != nil {
		s.fail(w, r, err, flowURL(x.id))
		return nil, false
	}
	now := s.Now()
	err := s.Store.View(r.Context(), func(tx storage.Tx) error { return s.stillActivating(tx, x, now) })
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, flowURL(x.id)) // the password comes first
		return nil, false
	case err != nil:
		s.fail(w, r, err, flowURL(x.id))
		return nil, false
	}
	return x, true
}

// stillActivating fills in who waits, or returns errMismatch when nobody does, or not any more.
func (s *Service) stillActivating(tx storage.Tx, x *activating, now time.Time) (err error) {
	a := x.flow.Activating
	if a == nil || !a.At.Add(activationProof).After(now) {
		return errMismatch
	}
	if x.units, err = s.Units(tx); err != nil {
		return err
	}
	x.person, err = persons.Get(tx, a.PersonID)
	on := x.units.Features.PersonActivation
	if errors.Is(err, storage.ErrNotFound) || err == nil && (x.person.State != Inactive || x.person.Epoch != a.Epoch || !on.Enabled || on.Type != activationByCode && !x.person.awaits()) {
		return errMismatch
	}
	return err
}

// showActivate serves GET /sign-in/activate?flow=…: a person whose password was right types the code that activates them.
func (s *Service) showActivate(w http.ResponseWriter, r *http.Request) {
	switch x, ok := s.readActivating(w, r); {
	case !ok:
	case x.byEmail():
		s.activateByEmailPage(w, r, x, http.StatusOK, page.Form{})
	default:
		s.activatePage(w, r, x, http.StatusOK, "")
	}
}

func (s *Service) activatePage(w http.ResponseWriter, r *http.Request, x *activating, status int, problem string) {
	v := s.view(x.flow.Demand, "form", status, page.Form{
		Key: "activate", Fill: []any{"account", x.person.Username}, Action: activateURL(x.id),
		CSRF: s.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), activateForm(x)), Problem: problem, Cancel: page.LocalPath(x.flow.Demand.Cancel),
		Fields: page.Fields(problem != "", page.Field{
			Name: "code", Type: "code", Label: "activate.code", InputMode: "text", Required: true, Invalid: problem != "", MaxLength: maxCode,
		}),
	})
	v.Client.Targets = append(v.Client.Targets, targetsOf(afterActivation(x.units))...)
	s.Pages.Render(w, r, v)
}

func activateForm(x *activating) string { return "activate:" + x.id + ":" + x.flow.Activating.PersonID }

// afterActivation is where a person goes who is active now and not signed in.
func afterActivation(u *config.Units) string {
	if u.Redirects.URLAfterActivation != "" {
		return absolute(u, u.Redirects.URLAfterActivation)
	}
	return ""
}

// handleActivate serves POST /sign-in/activate?flow=….
func (s *Service) handleActivate(w http.ResponseWriter, r *http.Request) {
	x, ok := s.readActivating(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), activateForm(x)); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, activateURL(x.id))
		return
	}
	if x.byEmail() {
		s.handleActivateByEmail(w, r, x)
		return
	}
	code := r.PostForm.Get("code")
	if code == "" {
		s.activatePage(w, r, x, http.StatusUnprocessableEntity, "problem.code_missing")
		return
	}
	err := s.activateByCode(w, r, x, code)
	switch {
	case errors.Is(err, errMismatch):
		s.Log.Info("activation refused", zap.String("person_id", x.flow.Activating.PersonID), zap.String("client_ip", s.Origin(r).ClientIP))
		s.activatePage(w, r, x, http.StatusUnprocessableEntity, "problem.activation")
	case err != nil:
		s.fail(w, r, err, activateURL(x.id))
	}
}

// activateByCode makes the person active and leads on: signed in where the first sign-in does both. errMismatch: the code is wrong, or no code any more.
func (s *Service) activateByCode(w http.ResponseWriter, r *http.Request, x *activating, code string) error {
	personID, from := x.flow.Activating.PersonID, s.Origin(r)
	spend, err := s.checkDeliveredCode(r.Context(), deliveredActivation, personID, code)
	if errors.Is(err, errMismatch) {
		return errors.Join(s.recordActivation(r, x, activationFailed), errMismatch)
	}
	if err != nil {
		return err
	}
	ev, err := s.newEvents(from, personActivated)
	if err != nil {
		return err
	}
	activate := func(tx storage.Tx, now time.Time) (personRecord, error) {
		if err := s.stillActivating(tx, x, now); err != nil {
			return x.person, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return x.person, errors.Join(err, errMismatch)
		}
		return s.activate(tx, personID, x.person, Actor{ID: personID, Name: x.person.Username, Origin: from}.did(ev[0], personID, activationReason), now)
	}
	if x.units.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled {
		if err := s.admitNew(w, r, x.flow, personID, "", activate); err != nil {
			return err
		}
		s.goIn(w, r, x.id, x.flow)
		return nil
	}
	now := s.Now()
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		_, err := activate(tx, now)
		return err
	})
	if err != nil {
		return err
	}
	if to := afterActivation(x.units); to != "" {
		s.sendOn(w, r, to)
		return nil
	}
	s.redirect(w, r, activatedPath+"?"+url.Values{"flow": {x.id}}.Encode())
	return nil
}

// activate makes an inactive or invited person active. Nothing was given to such a person, so nothing ends.
func (s *Service) activate(tx storage.Tx, personID string, rec personRecord, done event.Event, now time.Time) (personRecord, error) {
	how := rec.Awaits
	rec.State, rec.Awaits, rec.UpdatedAt = Active, unwelcomed, now
	if err := persons.Put(tx, personID, rec, time.Time{}); err != nil {
		return rec, err
	}
	prof, err := readProfile(tx, personID, &rec)
	if err != nil {
		return rec, err
	}
	if err := s.tell(tx, told{id: personID, rec: &rec, profile: &prof.Profile}, notify.Welcome, how.enabled, now); err != nil {
		return rec, err
	}
	done.Partition = rec.partition()
	return rec, s.Events.Append(tx, done)
}

// recordActivation writes the event of a code that was refused.
func (s *Service) recordActivation(r *http.Request, x *activating, kind event.Type) error {
	ev, err := s.newEvents(s.Origin(r), kind)
	if err != nil {
		return err
	}
	e := ev[0]
	e.PersonID, e.ClientID, e.Partition = x.flow.Activating.PersonID, x.flow.Demand.Client.ID, x.person.partition()
	return s.Store.Update(r.Context(), func(tx storage.Tx) error { return s.Events.Append(tx, e) })
}

// showActivated serves GET /sign-in/activated?flow=…: the account is active, and the sign-in goes on.
func (s *Service) showActivated(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.flow(w, r)
	if !ok {
		return
	}
	s.Pages.Render(w, r, s.view(f.Demand, "message", http.StatusOK, page.Message{Key: "activated", Next: flowURL(id)}))
}

// admitNew opens the session of a person whom prove, in the transaction, lets in for the first time.
func (s *Service) admitNew(w http.ResponseWriter, r *http.Request, f flowRecord, personID, why string, prove func(storage.Tx, time.Time) (personRecord, error)) error {
	device := s.device(r)
	if device == "" {
		var err error
		if device, err = s.newID(); err != nil {
			return err
		}
	}
	return s.admit(w, r, f, shown{
		person: personID, level: passwordLevel, amr: "DEFAULT", reason: why, device: device, from: s.Origin(r),
		prove: func(tx storage.Tx, now time.Time) (personRecord, error) {
			rec, err := prove(tx, now)
			if err != nil {
				return rec, err
			}
			return rec, devices.Put(tx, storage.Key(personID, hashed(device)), deviceRecord{Epoch: rec.Epoch, Seen: now}, now.Add(deviceLife))
		},
	})
}
