package front

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
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

// Visit is a request for a page of a person's own account that may go on.
type Visit struct {
	*Request

	Si *session.Current
	U  *config.Units
	// level is what the request has been held against: see still.
	Level int
	Path  string // of the page, where Cancel and a form that is refused lead
	Csrf  string
	// flow is the sign-in that goes on after a contact is confirmed, client whom it leads to. Empty: the person is at their profile
	Flow   string
	Client login.Client
}

// DashboardLevel is the level that every page of the account needs.
func DashboardLevel(u *config.Units) int { return u.StepUp.Actions.DashboardStepUpAuthenticationLevel }

// Guard returns who may see the page at path, which needs the level of the account pages and further ones, and the token of its forms. Otherwise
// it has written the answer and is not ok.
func (s *Service) Guard(w http.ResponseWriter, r *http.Request, path string, further ...func(*config.Units) int) (*Visit, bool) {
	u, err := s.person.Settings(r.Context())
	if err != nil {
		s.Fail(w, r, err, path)
		return nil, false
	}
	a := &Visit{U: u, Level: DashboardLevel(u), Path: path}
	for _, f := range further {
		a.Level = max(a.Level, f(u))
	}
	ok := false
	if a.Si, ok = s.RequireLevel(w, r, a.Level, path); !ok {
		return nil, false
	}
	if a.Csrf, err = s.SecurityForm(w, r, a.Si, path); err != nil {
		s.Fail(w, r, err, path)
		return nil, false
	}
	return a, true
}

// GuardPost is guard for a POST of a form of the page.
func (s *Service) GuardPost(w http.ResponseWriter, r *http.Request, path string, further ...func(*config.Units) int) (*Visit, bool) {
	a, ok := s.Guard(w, r, path, further...)
	return a, ok && s.CheckSecurityForm(w, r, a.Si, path, path)
}

// Actor is the person of the request, whose own session stays.
func (s *Service) Actor(r *http.Request, si *session.Current) event.Actor {
	return event.Actor{ID: si.Session.PersonID, Name: si.Person.Username, Session: si.ID, Origin: s.origin(r)}
}

// RenderAccount writes a page of the account, in the language of the person.
func (s *Service) RenderAccount(w http.ResponseWriter, r *http.Request, a *Visit, status int, d page.Dashboard) {
	if d.Done == "" {
		d.Done = done(r)
	}
	s.pages.Render(w, r, page.View{Template: "dashboard", Status: status, Locales: a.Si.Locales(), Nav: s.Nav(r, a.U), Data: d})
}

// dones are what the parameter done of a page may say.
var dones = []string{"saved", "added", "removed", "primary", "password", "ended", "withdrawn", "connected", "disconnected"}

// done returns the message of what was done before the page was asked for, or "".
func done(r *http.Request) string {
	if what := r.URL.Query().Get("done"); slices.Contains(dones, what) && r.Method == http.MethodGet {
		return "done." + what
	}
	return ""
}

func DoneURL(path, what string) string { return path + "?" + url.Values{"done": {what}}.Encode() }

// Nav returns the navigation of the account pages.
func (s *Service) Nav(r *http.Request, u *config.Units) *page.Nav {
	n := &page.Nav{}
	for _, e := range []page.NavEntry{
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
	from, _ := base64.RawURLEncoding.DecodeString(s.jar.Get(r, kindBack)) // what is none is not allowed either
	if back, err := url.Parse(Allowed(u, string(from))); err == nil && back.Host != "" {
		n.Back, n.BackName = back.String(), back.Hostname()
	}
	return n
}

// RememberBack keeps where the parameter redirect says that the person came from: a whitelisted URL.
func (s *Service) RememberBack(w http.ResponseWriter, r *http.Request, u *config.Units) bool {
	from := r.URL.Query().Get("redirect")
	if from == "" {
		return false
	}
	if to := Allowed(u, from); to != "" && len(TargetsOf(to)) > 0 && len(to) <= 1024 {
		s.jar.Set(w, kindBack, base64.RawURLEncoding.EncodeToString([]byte(to)), 0)
	}
	s.Redirect(w, r, person.DefaultReturn)
	return true
}

// FewRecoveryCodes is when a person is reminded to make new ones.
const FewRecoveryCodes = 3

// VerifiesEmail tells whether addresses are shown to be a person's own by a code.
func (s *Service) VerifiesEmail(u *config.Units) bool {
	return s.notify != nil && u.Attributes.Verification.EmailEnabled
}

// RequireLevel returns the browser's sign-in when it has a level, for a page of ours at ret. Otherwise it has sent the browser to the page
// that gets it there, or said that it cannot get there, and is not ok. Every page that shows or changes what is a person's own passes it.
func (s *Service) RequireLevel(w http.ResponseWriter, r *http.Request, level int, ret string) (*session.Current, bool) {
	q, err := s.Load(w, r)
	if err == nil {
		err = s.NeedLevel(q, level, ret)
	}
	if err != nil {
		q.Again = ret
		s.Render(q, err)
		return nil, false
	}
	return q.SignIn, true
}

// authenticator asks for a sign-in. It is the whole service.
type authenticator interface {
	// AuthenticateRequest returns the browser's sign-in when it satisfies d. Otherwise it has sent the browser to sign in and returns login.ErrResponded, or
	// returns a *login.Refusal.
	AuthenticateRequest(q *Request, d login.Demand) (*login.Result, error)
}

// AuthenticateBy sets who asks for sign-ins. New calls it before the service is used.
func (s *Service) AuthenticateBy(a authenticator) { s.authenticator = a }

// FailSignIn writes the page for a sign-in that nobody but the person has asked for.
func (s *Service) FailSignIn(w http.ResponseWriter, r *http.Request, err error, again string) {
	if refusal := new(login.Refusal); errors.As(err, &refusal) {
		s.log.Info("sign-in refused", zap.NamedError("cause", err))
		s.pages.Error(w, r, http.StatusForbidden, "error.refused", again)
		return
	}
	s.Fail(w, r, err, again)
}

// MainAddress is where the address stands that the page of the profile shows, -1 where there is none.
func MainAddress(list []person.Address) int {
	if len(list) == 0 {
		return -1
	}
	return max(0, slices.IndexFunc(list, func(a person.Address) bool { return a.Primary }))
}

// Back is where a person goes who has confirmed a contact, or leaves that alone.
func (a *Visit) Back() string {
	if a.Flow != "" {
		return CompleteURL(a.Flow)
	}
	return ProfilePath
}

// MayCouple tells whether the person may have one account more elsewhere.
func (a *Visit) MayCouple(list []person.CoupledIdentity) bool {
	return len(list) == 0 || a.U.Features.BindMultipleExternalAccountsWithOneCIMAccount
}

// MustHave tells whether a detail may not be left empty.
func (a *Visit) MustHave(name string) bool {
	must := a.U.Attributes.PersonCreationMandatoryFields
	return name == "given_name" && must.FirstNameRequired || name == "family_name" && must.LastNameRequired
}
