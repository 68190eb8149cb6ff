package account

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Applications knows what persons have given to applications. authz implements it.
type Applications interface {
	// Applications returns what a person has given, sorted by name.
	Applications(tx storage.Tx, person string, now time.Time) ([]login.Application, error)
	// ApplicationName returns what people call an application, or its id.
	ApplicationName(tx storage.Tx, id string) (string, error)
	// WithdrawConsent takes back all that a person has given to an application, and says how many grants there were.
	WithdrawConsent(ctx context.Context, person, application string, by event.Actor) (int, error)
}

// Tie names who knows what persons have given to applications. It is called before the service is used, if at all.
func (s *Service) Tie(a Applications) { s.apps = a }

// noApplications is what a service without an authorization server knows.
type noApplications struct{}

func (noApplications) Applications(storage.Tx, string, time.Time) ([]login.Application, error) {
	return []login.Application{}, nil
}

func (noApplications) ApplicationName(_ storage.Tx, id string) (string, error) { return id, nil }

func (noApplications) WithdrawConsent(context.Context, string, string, event.Actor) (int, error) {
	return 0, nil
}

// applicationsOf returns what the person of a request has given.
func (s *Service) applicationsOf(r *http.Request, a *front.Visit) (list []login.Application, err error) {
	now := s.now()
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		list, err = s.apps.Applications(tx, a.Si.Session.PersonID, now)
		return err
	})
	return list, err
}

// showApplications serves GET /account/applications: what the person has allowed, and since when.
func (s *Service) showApplications(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, front.ApplicationsPath)
	if !ok {
		return
	}
	list, err := s.applicationsOf(r, a)
	if err != nil {
		s.front.Fail(w, r, err, front.ApplicationsPath)
		return
	}
	part := page.Part{Empty: "application.none"}
	for _, app := range list {
		row := page.Row{Icon: "app", Name: app.Name, Details: []page.Text{}}
		if app.Owner != "" {
			row.Details = append(row.Details, page.Say("application.at", "owner", app.Owner))
		}
		row.Details = append(row.Details, page.Say("application.since", "time", app.Since))
		if !app.Last.IsZero() {
			row.Details = append(row.Details, page.Say("application.last", "time", app.Last))
		}
		if app.Until.IsZero() {
			row.Details = append(row.Details, page.Say("application.no_access"))
		} else {
			row.Details = append(row.Details, page.Say("application.until", "time", app.Until))
		}
		for _, sc := range app.Scopes {
			row.Scopes = append(row.Scopes, page.ScopeLine{Name: sc.Name, Description: sc.Description})
		}
		row.Links = organisationLinks(a.U.OrganisationOf(app.ID), app.Name)
		row.Actions = []page.Action{{Label: "application.withdraw", URL: front.ApplicationsPath, CSRF: a.Csrf, Fields: []page.Hidden{{Name: "application", Value: app.ID}}}}
		part.Rows = append(part.Rows, row)
	}
	s.front.RenderAccount(w, r, a, http.StatusOK, page.Dashboard{Key: "applications", Parts: []page.Part{part}})
}

// organisationLinks lead to where an application begins, and to the account that the person has at whom it belongs to.
func organisationLinks(o *config.Organisation, application string) (links []page.Link) {
	if o == nil {
		return nil
	}
	if o.LandingPageURL != "" {
		links = append(links, page.Link{Text: page.Say("application.open", "application", application), URL: o.LandingPageURL})
	}
	if u, err := url.Parse(o.AccountLinkURL); err == nil && u.Host != "" {
		links = append(links, page.Link{Text: page.Say("application.account", "organisation", cmp.Or(o.Name, u.Hostname())), URL: o.AccountLinkURL})
	}
	return links
}

// handleApplications serves POST /account/applications: an application loses what it was given, and its tokens with it.
func (s *Service) handleApplications(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.GuardPost(w, r, front.ApplicationsPath)
	if !ok {
		return
	}
	id := r.PostForm.Get("application")
	list, err := s.applicationsOf(r, a)
	if err == nil && !slices.ContainsFunc(list, func(app login.Application) bool { return app.ID == id }) {
		s.front.Redirect(w, r, front.ApplicationsPath) // gone already
		return
	}
	if err == nil {
		err = s.store.View(r.Context(), func(tx storage.Tx) error { return s.still(tx, a) })
	}
	if err == nil {
		by := event.Actor{ID: a.Si.Session.PersonID, Name: a.Si.Person.Username, Origin: s.origin(r)}
		_, err = s.apps.WithdrawConsent(r.Context(), a.Si.Session.PersonID, id, by)
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.ApplicationsPath)
	case err != nil:
		s.front.Fail(w, r, err, front.ApplicationsPath)
	default:
		s.front.Redirect(w, r, front.DoneURL(front.ApplicationsPath, "withdrawn"))
	}
}
