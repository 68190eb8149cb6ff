package account

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Applications knows what people have granted to applications. authz implements it.
type Applications interface {
	// Applications returns the applications that a person has granted something, sorted by name.
	Applications(tx storage.Tx, person string, now time.Time) ([]authn.Application, error)
	// ApplicationName returns the name of an application for people, or its id.
	ApplicationName(tx storage.Tx, id string) (string, error)
	// WithdrawConsent takes back everything that a person has granted to an application and returns the number of
	// grants.
	WithdrawConsent(ctx context.Context, person, application string, by audit.Actor) (int, error)
}

// Tie sets who knows what people have granted to applications. It is called before the service is used, if at all.
func (s *Service) Tie(a Applications) { s.apps = a }

// noApplications is the answer of a service without an authorization server.
type noApplications struct{}

func (noApplications) Applications(storage.Tx, string, time.Time) ([]authn.Application, error) {
	return []authn.Application{}, nil
}

func (noApplications) ApplicationName(_ storage.Tx, id string) (string, error) { return id, nil }

func (noApplications) WithdrawConsent(context.Context, string, string, audit.Actor) (int, error) {
	return 0, nil
}

// showApplications serves GET /account/applications: what the person has allowed, and since when.
func (s *Service) showApplications(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, webflow.ApplicationsPath)
	if err != nil {
		return err
	}
	var list []authn.Application
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		list, err = s.apps.Applications(tx, a.SignIn.Session.PersonID, now)
		return err
	})
	if err != nil {
		return err
	}
	part := web.Part{Empty: "application.none"}
	for _, app := range list {
		part.Rows = append(part.Rows, s.applicationRow(a, app))
	}
	return s.render(a, http.StatusOK, web.Dashboard{Key: "applications", Parts: []web.Part{part}})
}

func (s *Service) applicationRow(a *webflow.Visit, app authn.Application) web.Row {
	row := web.Row{Icon: "app", Logo: s.deps.Pages.ClientLogo(a.Context(), app.ID), Name: app.Name, Details: []web.Text{}}
	if app.Owner != "" {
		row.Details = append(row.Details, web.Say("application.at", "owner", app.Owner))
	}
	row.Details = append(row.Details, web.Say("application.since", "time", app.Since))
	if !app.Last.IsZero() {
		row.Details = append(row.Details, web.Say("application.last", "time", app.Last))
	}
	if app.Until.IsZero() {
		row.Details = append(row.Details, web.Say("application.no_access"))
	} else {
		row.Details = append(row.Details, web.Say("application.until", "time", app.Until))
	}
	for _, sc := range app.Scopes {
		row.Scopes = append(row.Scopes, web.ScopeLine{Name: sc.Name, Description: sc.Description})
	}
	row.Links = organisationLinks(a.Settings.OrganisationOf(strings.TrimPrefix(app.ID, "saml:")), app)
	fields := []web.Hidden{{Name: "application", Value: app.ID}}
	row.Actions = []web.Action{{Label: "application.withdraw", URL: webflow.ApplicationsPath, CSRF: a.CSRF, Fields: fields, Danger: true}}
	return row
}

// organisationLinks lead to the start page of an application, or to where a sign-in there begins, and to the person's
// account at its organisation.
func organisationLinks(o *settings.Organisation, app authn.Application) (links []web.Link) {
	start := app.Start
	if o != nil && o.LandingPageURL != "" {
		start = o.LandingPageURL
	}
	if start != "" {
		links = append(links, web.Link{Text: web.Say("application.open", "application", app.Name), URL: start})
	}
	if o == nil {
		return links
	}
	if u, err := url.Parse(o.AccountLinkURL); err == nil && u.Host != "" {
		text := web.Say("application.account", "organisation", cmp.Or(o.Name, u.Hostname()))
		links = append(links, web.Link{Text: text, URL: o.AccountLinkURL})
	}
	return links
}

// handleApplications serves POST /account/applications: an application loses its grants and its tokens.
func (s *Service) handleApplications(q *webflow.Request) error {
	a, err := s.deps.Front.VisitPost(q, webflow.ApplicationsPath)
	if err != nil {
		return err
	}
	id, personID, now := q.PostForm.Get("application"), a.SignIn.Session.PersonID, s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		list, err := s.apps.Applications(tx, personID, now)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(app authn.Application) bool { return app.ID == id }) {
			return person.ErrMismatch // withdrawn already
		}
		return s.recheck(tx, a, now)
	})
	if err == nil {
		_, err = s.apps.WithdrawConsent(q.Context(), personID, id, s.caller(a))
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(webflow.ApplicationsPath)
	case err != nil:
		return err
	}
	return q.Redirect(doneURL(webflow.ApplicationsPath, "withdrawn"))
}

// caller is the person of the visit, for events of authz.
func (s *Service) caller(a *webflow.Visit) audit.Actor {
	return audit.Actor{ID: a.SignIn.Session.PersonID, Name: a.SignIn.Person.Username, Origin: s.originOf(a)}
}

// Unlinked notifies the organisation of an application, if it wants that, when a person has withdrawn everything
// granted to it. The notice identifies the person only by the subject that the application knows. authz calls it in the
// transaction of the withdrawal.
func (s *Service) Unlinked(tx storage.Tx, u authn.Unlinked) error {
	if s.deps.Notify == nil {
		return nil
	}
	units, err := s.deps.Units(tx)
	if err != nil {
		return err
	}
	o := units.OrganisationOf(u.ClientID)
	if o == nil || !o.NotifyWhenUserDoesUnlinkAccount || o.SupportEmail == "" {
		return nil
	}
	wait, err := s.deps.Proof.CountRequest(tx, "unlinked", storage.Key(u.Person, u.ClientID), person.UnlinkedPerPerson, u.At)
	if err != nil {
		return err
	}
	if wait > 0 {
		s.deps.Log.Info("organisation not notified of a withdrawal: too many",
			zap.String("person_id", u.Person), zap.String("client_id", u.ClientID))
		return nil
	}
	n := federation.NoticeTo(o, notify.AccountUnlinked, u.At)
	n.PersonID, n.Data = u.Person, map[string]string{"application": u.Client, "subject": u.Subject}
	return s.deps.Person.SendNotice(tx, n)
}
