package webflow

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// An administrator can look at the account of someone else. It is a mark on the administrator's own session: there is
// no session of the other person, so no site, no application and no token can come of it. While the mark stands, the
// browser reads the pages of the account and does nothing else. (docs/decisions/console.md#seeing-an-account)

// SeeingLasts is the maximum time of looking at an account.
const SeeingLasts = 15 * time.Minute

// EndSeeingPath ends it.
const EndSeeingPath = person.DefaultReturn + "/seen/end"

// seenPages are the pages that can be looked at: those that show and do not change. The download of the data, pages
// that set up something and pages with secrets are not among them.
var seenPages = []string{person.DefaultReturn, ProfilePath, SecurityPath, DevicesPath, ApplicationsPath, ActivityPath}

// Seeing is the account that an administrator looks at.
type Seeing struct {
	By     *session.Current // whose session it is
	Person person.Record
	id     string
	ends   time.Time
	shown  bool // the request reads a page of the account
}

// seer knows who may look at whose account. The admin console is it.
type seer interface {
	// MaySee reports whether the person of a session may look at the account of a person.
	MaySee(u *settings.Units, by *session.Current, personID string, p *person.Record) bool
	// SeenFrom is the page that the browser returns to.
	SeenFrom(personID string) string
}

// SeeBy sets who knows, before the service is used. Without it no one looks at accounts of others.
func (s *Service) SeeBy(a seer) { s.seer = a }

// readSeeing reads whose account the browser looks at. A mark that is over, or whose right has been lost, does not
// count.
func (s *Service) readSeeing(tx storage.Tx, q *Request, now time.Time) error {
	q.seeing = nil
	if q.SignIn == nil || q.SignIn.Session.Seeing == nil || s.seer == nil {
		return nil
	}
	mark := q.SignIn.Session.Seeing
	p, err := person.Records.Get(tx, mark.Person)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err == nil && mark.Ends.After(now) && p.State == person.Active && s.seer.MaySee(q.Settings, q.SignIn, mark.Person, &p) {
		q.seeing = &Seeing{By: q.SignIn, Person: p, id: mark.Person, ends: mark.Ends}
	}
	return err
}

// bound is the one place that decides what a browser can do that looks at someone's account: read its pages, and stop.
// Every page of this service passes here before its handler runs.
func (s *Service) bound(q *Request) error {
	if q.seeing == nil || q.Method == http.MethodPost && q.URL.Path == EndSeeingPath {
		return nil
	}
	if (q.Method != http.MethodGet && q.Method != http.MethodHead) || !slices.Contains(seenPages, q.URL.Path) {
		return errSeeing()
	}
	by := q.seeing.By
	q.seeing.shown = true
	q.SignIn = &session.Current{
		// Forms belong to a session and would be of this one: another id makes them worthless once it is over.
		ID: by.ID + " sees " + q.seeing.id,
		Session: session.Record{
			PersonID: q.seeing.id, Epoch: q.seeing.Person.Epoch, AuthTime: by.Session.AuthTime, Seen: by.Session.Seen, Level: by.Session.Level,
			Provider: session.LocalProvider,
		},
		Person: q.seeing.Person,
	}
	return nil
}

// errSeeing is the answer to everything but reading while an administrator looks at another person's account.
func errSeeing() error {
	return &Answer{
		Status: http.StatusForbidden, Key: "error.seeing", Again: person.DefaultReturn,
		Cause: errors.New("identity: an administrator is looking at the account"),
	}
}

// AnswerSeeing answers a demand of a browser that looks at someone's account: its pages are shown at the level that the
// administrator has, and everything else is refused. seeing is false for other browsers.
func (s *Service) AnswerSeeing(q *Request, d authn.Demand) (result *authn.Result, seeing bool, err error) {
	switch {
	case q.seeing == nil:
		return nil, false, nil
	case q.seeing.shown && q.SignIn.Session.Level >= max(d.Level, q.Settings.RequiredLevel(d.Client.ID)):
		return q.SignIn.Result(), true, nil
	case d.Passive:
		return nil, true, &authn.Refusal{Code: "login_required", Reason: "an administrator is looking at another person's account"}
	}
	return nil, true, errSeeing()
}

// BeginSeeing lets the session of by look at the account of a person, who is told.
func (s *Service) BeginSeeing(ctx context.Context, personID string, by audit.Actor) error {
	e, err := s.deps.Events.New(SeeingBegun, by.Origin)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		p, err := person.Records.Get(tx, personID)
		if err != nil {
			return err
		}
		prof, err := person.ReadProfile(tx, personID, &p)
		if err != nil {
			return err
		}
		if _, err := s.deps.Session.See(tx, by.Session, &session.SeeingRecord{Person: personID, Ends: now.Add(SeeingLasts)}, now); err != nil {
			return err
		}
		if s.deps.Notify != nil {
			n := person.Recipient{ID: personID, Record: &p, Profile: &prof.Profile}.Notice(notify.AccountSeen, now)
			n.Data["administrator"], n.Until, n.Link = by.Name, now.Add(SeeingLasts), ActivityPath
			if err := s.deps.Person.SendNotice(tx, n); err != nil {
				return err
			}
		}
		return s.deps.Events.Append(tx, by.Fill(e, personID, ""))
	})
}

// handleEndSeeing serves POST /account/seen/end.
func (s *Service) handleEndSeeing(q *Request) error {
	if err := s.CheckForm(q, endSeeingForm, person.DefaultReturn); err != nil {
		return err
	}
	if q.seeing == nil { // over by itself
		return q.Redirect(person.DefaultReturn)
	}
	by, now := s.Actor(q.Request, q.seeing.By), s.deps.Now()
	e, err := s.deps.Events.New(SeeingEnded, by.Origin)
	if err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		before, err := s.deps.Session.See(tx, by.Session, nil, now)
		if err != nil || before == nil {
			return err
		}
		return s.deps.Events.Append(tx, by.Fill(e, before.Person, ""))
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return q.Redirect(s.seer.SeenFrom(q.seeing.id))
}

// endSeeingForm is the form that ends it. It belongs to the browser alone, so it also works when the time is over.
const endSeeingForm = "end seeing"

// banner says on every page whose account is looked at, by whom and until when. nil: it is the own one.
func (s *Service) banner(q *Request) (*web.Seeing, error) {
	if q.seeing == nil {
		return nil, nil //nolint:nilnil // no banner
	}
	csrf, err := s.FormToken(q, endSeeingForm)
	return &web.Seeing{
		Name: q.seeing.Person.Username, By: q.seeing.By.Person.Username, Until: q.seeing.ends,
		Action: EndSeeingPath, CSRF: csrf,
	}, err
}
