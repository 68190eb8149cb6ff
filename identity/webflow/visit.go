package webflow

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The pages of a person's own account.
const (
	ProfilePath      = person.DefaultReturn + "/profile"
	SecurityPath     = person.DefaultReturn + "/security"
	DevicesPath      = person.DefaultReturn + "/devices"
	ApplicationsPath = person.DefaultReturn + "/applications"
	ActivityPath     = person.DefaultReturn + "/activity"
	DataPath         = person.DefaultReturn + "/data"

	kindBack = "back" // cookie with where the person came from, which is judged each time
)

// Visit is a request that is admitted to a page of a person's own account.
type Visit struct {
	*Request

	Level int    // that the sign-in has at least
	Path  string // of the page, where Cancel leads
	CSRF  string // token of the page's forms
}

// DashboardLevel is the level that every page of the account needs.
func DashboardLevel(u *settings.Units) int {
	return u.StepUp.Actions.DashboardStepUpAuthenticationLevel
}

// Actor is the person of the request, whose own session stays.
func (s *Service) Actor(r *http.Request, si *session.Current) audit.Actor {
	by := audit.Actor{ID: si.Session.PersonID, Name: si.Person.Username, Session: si.ID, Origin: s.deps.Origin(r)}
	if si.Session.Vouched {
		by.Vouched = "an API client or administrator"
		if id := si.Session.Provider; id != session.LocalProvider {
			by.Vouched = "the login method " + id
		}
	}
	return by
}

// SignOutForm names the form that signs a person out.
const SignOutForm = "sign_out"

// Nav returns the navigation of the account pages.
func (s *Service) Nav(q *Request) (*web.Nav, error) {
	r, n := q.Request, &web.Nav{Name: q.SignIn.Person.Username}
	if name := q.SignIn.Person.Name; name != "" && q.Settings.Attributes.NameVisibleOnDashboard {
		n.Name = name
	}
	var err error
	if n.Seeing, err = s.banner(q); err != nil {
		return nil, err
	}
	if n.SignOut, err = s.FormToken(q, SessionForm(SignOutForm, q.SignIn)); err != nil {
		return nil, err
	}
	for _, e := range []web.NavEntry{
		{Label: "account.overview", URL: person.DefaultReturn, Icon: "person"},
		{Label: "account.profile", URL: ProfilePath, Icon: "pencil"},
		{Label: "account.security", URL: SecurityPath, Icon: "lock"},
		{Label: "account.devices", URL: DevicesPath, Icon: "device"},
		{Label: "account.applications", URL: ApplicationsPath, Icon: "app"},
		{Label: "account.activity", URL: ActivityPath, Icon: "clock"},
		{Label: "account.data", URL: DataPath, Icon: "info"},
	} {
		e.Current = r.URL.Path == e.URL || e.URL != person.DefaultReturn && strings.HasPrefix(r.URL.Path, e.URL+"/")
		n.Entries = append(n.Entries, e)
	}
	if s.moreNav != nil {
		n.Entries = append(n.Entries, s.moreNav(q)...)
	}
	from, _ := base64.RawURLEncoding.DecodeString(s.deps.Jar.Get(r, kindBack)) // an invalid cookie is not allowed below
	if back, err := url.Parse(Allowed(q.Settings, string(from))); err == nil && back.Host != "" {
		n.Back, n.BackName = back.String(), back.Hostname()
	}
	return n, nil
}

// OnNav sets what adds entries to the navigation of the account pages, before the service is used.
func (s *Service) OnNav(more func(*Request) []web.NavEntry) { s.moreNav = more }

// RememberBack keeps where the person came from, if the parameter redirect names a whitelisted URL. With the parameter
// it redirects to the same page without it and returns ErrAnswered.
func (s *Service) RememberBack(q *Request) error {
	from := q.URL.Query().Get("redirect")
	if from == "" {
		return nil
	}
	if to := Allowed(q.Settings, from); to != "" && len(TargetsOf(to)) > 0 && len(to) <= 1024 {
		s.deps.Jar.Set(q.W, kindBack, base64.RawURLEncoding.EncodeToString([]byte(to)), 0)
	}
	return cmp.Or(q.Redirect(person.DefaultReturn), ErrAnswered)
}

// VerifiesEmail reports whether addresses are shown to be a person's own by a code.
func (s *Service) VerifiesEmail(u *settings.Units) bool {
	return s.deps.Notify != nil && u.Attributes.Verification.EmailEnabled
}

// authenticator asks for a sign-in. It is the whole service.
type authenticator interface {
	// AuthenticateRequest returns the browser's sign-in if it satisfies d. Otherwise it has redirected to the sign-in
	// page and returns authn.ErrResponded, or it returns a *authn.Refusal or an *Answer.
	AuthenticateRequest(q *Request, d authn.Demand) (*authn.Result, error)
}

// ProtectBy sets what reports whether a person has set up a second step. New calls it before the service is used.
func (s *Service) ProtectBy(protects func(tx storage.Tx, si *session.Current, u *settings.Units) (bool, error)) {
	s.protects = protects
}

// AuthenticateBy sets who asks for sign-ins. New calls it before the service is used.
func (s *Service) AuthenticateBy(a authenticator) { s.authenticator = a }
