package enrol

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
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

// ActivationDelivery are the terms of codes that activate persons.
func ActivationDelivery(_ storage.Tx, _ string, rec *person.Record, u *config.Units) (proof.DeliveredTerms, error) {
	a := &u.Features.PersonActivation
	switch {
	case !a.Enabled || a.Type != person.ActivationByCode:
		return proof.DeliveredTerms{}, proof.ErrCodesOff
	case rec.State != person.Inactive:
		return proof.DeliveredTerms{}, &person.StateError{State: rec.State}
	}
	c := &a.ExternallyDeliveredCode
	return proof.DeliveredTerms{Life: ofSeconds(a.ExpirationTime), After: ofSeconds(c.UnavailabilityTime), Every: ofSeconds(c.ResendCodeMinimumPeriod)}, nil
}

func ofSeconds(n int) time.Duration { return time.Duration(n) * time.Second }

// LeadToActivation sends a person whose password was right to where they are activated. The sign-in waits for it.
func (s *Service) LeadToActivation(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, who *person.InactiveError) {
	ev, err := s.person.NewEvents(s.origin(r), proof.LoginFailed)
	if err == nil {
		now := s.now()
		f.Activating = &front.ActivatingRecord{PersonID: who.Account.ID, Epoch: who.Account.Person.Epoch, At: now}
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			e := ev[0]
			e.PersonID, e.ClientID, e.Reason = who.Account.ID, f.Demand.Client.ID, "the person is inactive"
			if err := s.events.Append(tx, e); err != nil {
				return err
			}
			return front.FlowRecords.Put(tx, id, f, f.ExpiresAt.Add(front.FlowMemory))
		})
	}
	if err != nil {
		s.front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	s.front.Redirect(w, r, activateURL(id))
}

// activation is a sign-in that waits for the person to be activated.
type activation struct {
	id     string
	flow   front.FlowRecord
	person person.Record
	units  *config.Units
}

// readActivating reads it. Otherwise it has written the answer and is not ok.
func (s *Service) readActivating(w http.ResponseWriter, r *http.Request) (x *activation, ok bool) {
	x = new(activation)
	if x.id, x.flow, ok = s.front.Flow(w, r); !ok {
		return nil, false
	}
	if err := s.front.IsOpen(r.Context()); err != nil {
		s.front.Fail(w, r, err, front.FlowURL(x.id))
		return nil, false
	}
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) error { return s.stillActivating(tx, x, now) })
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.FlowURL(x.id)) // the password comes first
		return nil, false
	case err != nil:
		s.front.Fail(w, r, err, front.FlowURL(x.id))
		return nil, false
	}
	return x, true
}

// stillActivating fills in who waits, or returns person.ErrMismatch when nobody does, or not any more.
func (s *Service) stillActivating(tx storage.Tx, x *activation, now time.Time) (err error) {
	a := x.flow.Activating
	if a == nil || !a.At.Add(activationProof).After(now) {
		return person.ErrMismatch
	}
	if x.units, err = s.units(tx); err != nil {
		return err
	}
	x.person, err = person.Records.Get(tx, a.PersonID)
	on := x.units.Features.PersonActivation
	if errors.Is(err, storage.ErrNotFound) || err == nil && (x.person.State != person.Inactive || x.person.Epoch != a.Epoch || !on.Enabled || on.Type != person.ActivationByCode && !x.person.AwaitsNow()) {
		return person.ErrMismatch
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

func (s *Service) activatePage(w http.ResponseWriter, r *http.Request, x *activation, status int, problem string) {
	v := s.front.View(x.flow.Demand, "form", status, page.Form{
		Key: "activate", Fill: []any{"account", x.person.Username}, Action: activateURL(x.id),
		CSRF: s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), activateForm(x)), Problem: problem, Cancel: page.LocalPath(x.flow.Demand.Cancel),
		Fields: page.Fields(problem != "", page.Field{
			Name: "code", Type: "code", Label: "activate.code", InputMode: "text", Required: true, Invalid: problem != "", MaxLength: proof.MaxCode,
		}),
	})
	v.Client.Targets = append(v.Client.Targets, front.TargetsOf(afterActivation(x.units))...)
	s.pages.Render(w, r, v)
}

func activateForm(x *activation) string { return "activate:" + x.id + ":" + x.flow.Activating.PersonID }

// afterActivation is where a person goes who is active now and not signed in.
func afterActivation(u *config.Units) string {
	if u.Redirects.URLAfterActivation != "" {
		return front.Absolute(u, u.Redirects.URLAfterActivation)
	}
	return ""
}

// handleActivate serves POST /sign-in/activate?flow=….
func (s *Service) handleActivate(w http.ResponseWriter, r *http.Request) {
	x, ok := s.readActivating(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), activateForm(x)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, activateURL(x.id))
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
	case errors.Is(err, person.ErrMismatch):
		s.log.Info("activation refused", zap.String("person_id", x.flow.Activating.PersonID), zap.String("client_ip", s.origin(r).ClientIP))
		s.activatePage(w, r, x, http.StatusUnprocessableEntity, "problem.activation")
	case err != nil:
		s.front.Fail(w, r, err, activateURL(x.id))
	}
}

// activateByCode makes the person active and leads on: signed in where the first sign-in does both. person.ErrMismatch: the code is wrong, or no code any more.
func (s *Service) activateByCode(w http.ResponseWriter, r *http.Request, x *activation, code string) error {
	personID, from := x.flow.Activating.PersonID, s.origin(r)
	spend, err := s.proof.CheckDeliveredCode(r.Context(), proof.DeliveredActivation, personID, code)
	if errors.Is(err, person.ErrMismatch) {
		return errors.Join(s.recordActivation(r, x, activationFailed), person.ErrMismatch)
	}
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(from, person.EventActivated)
	if err != nil {
		return err
	}
	activate := func(tx storage.Tx, now time.Time) (person.Record, error) {
		if err := s.stillActivating(tx, x, now); err != nil {
			return x.person, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return x.person, errors.Join(err, person.ErrMismatch)
		}
		return s.person.Activate(tx, personID, x.person, event.Actor{ID: personID, Name: x.person.Username, Origin: from}.Fill(ev[0], personID, activationReason), now)
	}
	if x.units.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled {
		if err := s.front.AdmitNew(w, r, x.flow, personID, "", activate); err != nil {
			return err
		}
		s.front.Enter(w, r, x.id, x.flow)
		return nil
	}
	now := s.now()
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		_, err := activate(tx, now)
		return err
	})
	if err != nil {
		return err
	}
	if to := afterActivation(x.units); to != "" {
		s.front.LeaveTo(w, r, to)
		return nil
	}
	s.front.Redirect(w, r, activatedPath+"?"+url.Values{"flow": {x.id}}.Encode())
	return nil
}

// recordActivation writes the event of a code that was refused.
func (s *Service) recordActivation(r *http.Request, x *activation, kind event.Type) error {
	ev, err := s.person.NewEvents(s.origin(r), kind)
	if err != nil {
		return err
	}
	e := ev[0]
	e.PersonID, e.ClientID, e.Partition = x.flow.Activating.PersonID, x.flow.Demand.Client.ID, x.person.PartitionName()
	return s.store.Update(r.Context(), func(tx storage.Tx) error { return s.events.Append(tx, e) })
}

// showActivated serves GET /sign-in/activated?flow=…: the account is active, and the sign-in goes on.
func (s *Service) showActivated(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.front.Flow(w, r)
	if !ok {
		return
	}
	s.pages.Render(w, r, s.front.View(f.Demand, "message", http.StatusOK, page.Message{Key: "activated", Next: front.FlowURL(id)}))
}
