package account

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// guard admits a request to the page at path, or returns what answers it. It is webflow.VisitOf or webflow.VisitPost.
type guard = func(q *webflow.Request, path string, further ...func(*settings.Units) int) (*webflow.Visit, error)

// readLevel returns the level that a page demands of this person, as read finds it. read also reads what else the page
// needs, so all of it is of one snapshot; nothing of that is shown before a guard has passed. A browser without a
// sign-in needs the lowest level.
func (s *Service) readLevel(q *webflow.Request, read levelReader) (level int, err error) {
	if q.SignIn == nil {
		return session.PasswordLevel, nil
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		st, err := s.deps.StepUp.StandingIn(tx, q.SignIn, q.Settings)
		if err != nil {
			return err
		}
		level, err = read(tx, st)
		return err
	})
	return level, err
}

// levelReader reads what a page needs, and returns the level that the page demands of this person.
type levelReader = func(tx storage.Tx, st *mfa.Standing) (level int, err error)

// visit is admit for a page whose level read returns (see readLevel).
func (s *Service) visit(q *webflow.Request, admit guard, path string, read levelReader,
	further ...func(*settings.Units) int,
) (*webflow.Visit, error) {
	q.Again = path
	level, err := s.readLevel(q, read)
	if err != nil {
		return nil, err
	}
	return admit(q, path, append(further, func(*settings.Units) int { return level })...)
}

// recheck returns person.ErrMismatch when, by now, the session is not allowed what the visit was admitted for.
func (s *Service) recheck(tx storage.Tx, a *webflow.Visit, now time.Time) error {
	rec, err := s.deps.Session.Live(tx, a.SignIn.ID, now)
	if errors.Is(err, storage.ErrNotFound) {
		return person.ErrMismatch
	}
	if err != nil {
		return err
	}
	p, err := person.Records.Get(tx, a.SignIn.Session.PersonID)
	if err == nil && (rec.PersonID != a.SignIn.Session.PersonID || rec.Level < a.Level || p.State != person.Active || p.Epoch != rec.Epoch) {
		err = person.ErrMismatch
	}
	return err
}

// update changes the person of the visit by change, in a transaction that begins with recheck.
func (s *Service) update(a *webflow.Visit, change func(tx storage.Tx, d *person.Details) error) (person.Details, error) {
	return s.updateAs(a, person.Edit{By: s.actor(a)}, change)
}

func (s *Service) updateAs(a *webflow.Visit, e person.Edit, change func(tx storage.Tx, d *person.Details) error) (person.Details, error) {
	now := s.deps.Now()
	return s.deps.Person.UpdatePerson(a.Context(), a.SignIn.Session.PersonID, e, func(tx storage.Tx, d *person.Details) error {
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		return change(tx, d)
	})
}

// actor is the person of the visit, whose own session survives a new password.
func (s *Service) actor(a *webflow.Visit) audit.Actor {
	return s.deps.Front.Actor(a.Request.Request, a.SignIn)
}

func (s *Service) originOf(a *webflow.Visit) audit.Origin { return s.deps.Origin(a.Request.Request) }

// render writes an account page in the person's language.
func (s *Service) render(a *webflow.Visit, status int, d web.Dashboard) error {
	return s.renderSignalling(a, status, "", d)
}

// renderSignalling is render for a page that tells the browser about passkeys. (web.View)
func (s *Service) renderSignalling(a *webflow.Visit, status int, signals string, d web.Dashboard) error {
	if d.Done == "" {
		d.Done = doneMessage(a)
	}
	nav, err := s.deps.Front.Nav(a.Request)
	if err != nil {
		return err
	}
	s.deps.Pages.Render(a.W, a.Request.Request, web.View{
		Template: "dashboard", Status: status, Locales: a.SignIn.Locales(), Nav: nav, Signals: signals, Data: d,
	})
	return nil
}

// doneWords are the values that the parameter done of a page can have.
var doneWords = []string{
	"saved", "added", "removed", "primary", "password", "ended", "withdrawn", "connected",
	"disconnected", "revoked", "untrusted",
}

// doneMessage returns the message about what was done before the page was requested, or "".
func doneMessage(a *webflow.Visit) string {
	if word := a.URL.Query().Get("done"); slices.Contains(doneWords, word) && a.Method == http.MethodGet {
		return "done." + word
	}
	return ""
}

// doneURL is the page at path with a message about what was done.
func doneURL(path, word string) string { return path + "?" + url.Values{"done": {word}}.Encode() }

// throttle begins a page that says how long no attempt is accepted.
func throttle(a *webflow.Visit, wait time.Duration) web.Dashboard {
	return web.Dashboard{Problem: "problem.wait", Wait: webflow.RetryAfter(a.W, wait)}
}
