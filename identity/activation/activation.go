package activation

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	activatePath   = "/sign-in/activate"
	activatedPath  = "/sign-in/activated"
	passwordMemory = 15 * time.Minute // how long the page stays open after the right password
)

func activateURL(flow string) string { return activatePath + "?" + url.Values{"flow": {flow}}.Encode() }

// LeadToActivation redirects a person whose password was right, and who is inactive, to the page that activates the
// account. The sign-in waits meanwhile.
func (s *Service) LeadToActivation(q *webflow.Request, flow string, who *person.InactiveError) error {
	q.Again = webflow.FlowURL(flow)
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), challenge.LoginFailed)
	if err != nil {
		return err
	}
	e, now := ev[0], s.deps.Now()
	e.PersonID, e.Provider, e.Reason = who.Account.ID, session.LocalProvider, "the person is inactive"
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		err := webflow.ChangeFlowIn(tx, flow, func(f *webflow.FlowRecord) {
			f.Activating = &webflow.ActivatingRecord{PersonID: who.Account.ID, Epoch: who.Account.Person.Epoch, At: now}
			e.ClientID = f.Demand.Client.ID
		})
		if err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	switch {
	case errors.Is(err, storage.ErrNotFound): // the sign-in has ended
		return webflow.TooLate(person.DefaultReturn)
	case err != nil:
		return err
	}
	return q.Redirect(activateURL(flow))
}

// ActivateByPassword activates a person whose password was right, and signs them in: the method of usernames and
// passwords has auto_activation_enabled.
func (s *Service) ActivateByPassword(q *webflow.Request, id string, flow webflow.FlowRecord, who *person.InactiveError) error {
	from := s.deps.Origin(q.Request)
	ev, err := s.deps.Person.NewEvents(from, person.EventActivated)
	if err != nil {
		return err
	}
	personID := who.Account.ID
	done := audit.Actor{ID: personID, Name: who.Account.Person.Username, Origin: from}.Fill(ev[0], personID, "by the password")
	err = s.deps.Front.AdmitNew(q.W, q.Request, flow, personID, "", func(tx storage.Tx, now time.Time) (person.Record, error) {
		rec, err := person.Records.Get(tx, personID)
		if err == nil && (rec.Epoch != who.Account.Person.Epoch || !rec.AwaitsNow()) { // another password, or a block
			err = person.ErrMismatch
		}
		if err != nil {
			return rec, err
		}
		return s.deps.Person.Activate(tx, personID, rec, done, now)
	})
	switch {
	case errors.Is(err, person.ErrMismatch), errors.Is(err, storage.ErrNotFound):
		return q.Redirect(webflow.FlowURL(id))
	case err != nil:
		return err
	}
	return s.deps.Front.Finish(q, id, flow)
}

// activation is a sign-in that waits until the person is activated.
type activation struct {
	id     string // of the flow
	flow   webflow.FlowRecord
	person person.Record
	units  *settings.Units
	// Of an activation by e-mail: where the link or the code goes, and whether a code was sent and can be typed.
	mail     person.Recipient
	codeSent bool
}

// readActivation returns the activation that the request names.
func (s *Service) readActivation(q *webflow.Request) (*activation, error) {
	x, now := &activation{units: q.Settings}, s.deps.Now()
	var err error
	if x.id, x.flow, err = s.deps.Front.FlowIn(q); err != nil {
		return nil, err
	}
	q.Again = webflow.FlowURL(x.id)
	if err := webflow.CheckOpen(q.Settings); err != nil {
		return nil, err
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error { return s.fillActivation(tx, x, now) })
	switch {
	case errors.Is(err, person.ErrMismatch):
		return nil, q.RedirectAway(q.Again) // the password comes first
	case err != nil:
		return nil, err
	}
	q.Again = activateURL(x.id)
	return x, nil
}

// fillActivation reads the person who waits. person.ErrMismatch: the sign-in no longer waits.
func (s *Service) fillActivation(tx storage.Tx, x *activation, now time.Time) (err error) {
	a, on := x.flow.Activating, &x.units.Features.PersonActivation
	if a == nil || !a.At.Add(passwordMemory).After(now) || !on.Enabled {
		return person.ErrMismatch
	}
	x.person, err = person.Records.Get(tx, a.PersonID)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return person.ErrMismatch
	case err != nil:
		return err
	case x.person.State != person.Inactive, x.person.Epoch != a.Epoch:
		return person.ErrMismatch
	case on.Type != person.ActivationByCode && !x.person.AwaitsNow():
		return person.ErrMismatch
	case !x.byEmail():
		return nil
	}
	if x.mail, err = s.deps.Proof.LinkReached(tx, a.PersonID, &x.person); err == nil && x.byMailedCode() {
		x.codeSent, err = s.deps.Proof.CodeWaits(tx, x.mailPurpose(), now)
	}
	return err
}

// refreshActivation is fillActivation with the settings as tx sees them.
func (s *Service) refreshActivation(tx storage.Tx, x *activation, now time.Time) (err error) {
	if x.units, err = s.deps.Units(tx); err != nil {
		return err
	}
	return s.fillActivation(tx, x, now)
}

// form binds the forms of the page to the flow and the person.
func (x *activation) form() string { return "activate:" + x.id + ":" + x.flow.Activating.PersonID }

// detour returns the flow for a page whose form can end at the address after the activation.
func (x *activation) detour() webflow.Detour {
	return webflow.Detour{ID: x.id, Flow: x.flow, U: x.units}.WithTarget(afterActivation(x.units))
}

// afterActivation returns the destination of an activated person who is not signed in, or "".
func afterActivation(u *settings.Units) string {
	if u.Redirects.URLAfterActivation != "" {
		return webflow.Absolute(u, u.Redirects.URLAfterActivation)
	}
	return ""
}

// showActivate serves GET /sign-in/activate?flow=…: after the right password, a person types the code that activates
// the account.
func (s *Service) showActivate(q *webflow.Request) error {
	x, err := s.readActivation(q)
	switch {
	case err != nil:
		return err
	case x.byEmail():
		return s.renderActivateByEmail(q, x, http.StatusOK, web.Form{})
	}
	return s.renderActivate(q, x, http.StatusOK, "")
}

func (s *Service) renderActivate(q *webflow.Request, x *activation, status int, problem string) error {
	fields := webflow.CodeFields("activate.code", problem)
	fields[0].InputMode = "text" // such codes have letters
	return s.deps.Front.RenderForm(q, x.detour(), x.form(), status, web.Form{
		Key: "activate", Fill: []any{"account", x.person.Username}, Action: activateURL(x.id), Problem: problem,
		Cancel: web.LocalPath(x.flow.Demand.Cancel), Fields: fields,
	})
}

// handleActivate serves POST /sign-in/activate?flow=….
func (s *Service) handleActivate(q *webflow.Request) error {
	x, err := s.readActivation(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), activateURL(x.id))
	}
	if err != nil {
		return err
	}
	if x.byEmail() {
		return s.handleActivateByEmail(q, x)
	}
	code := q.PostForm.Get("code")
	if code == "" {
		return s.renderActivate(q, x, http.StatusUnprocessableEntity, "problem.code_missing")
	}
	err = s.activateByCode(q, x, code)
	if errors.Is(err, person.ErrMismatch) {
		s.logRefusal(q, x)
		return s.renderActivate(q, x, http.StatusUnprocessableEntity, "problem.activation")
	}
	return err
}

// showActivated serves GET /sign-in/activated?flow=…: the account is active, and the sign-in continues.
func (s *Service) showActivated(q *webflow.Request) error {
	id, f, err := s.deps.Front.FlowIn(q)
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(f.Demand, "message", http.StatusOK, web.Message{
		Key: "activated", Next: webflow.FlowURL(id),
	}))
	return nil
}
