package identity

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The pages of a person's own account.
const (
	profilePath      = defaultReturn + "/profile"
	securityPath     = defaultReturn + "/security"
	devicesPath      = defaultReturn + "/devices"
	applicationsPath = defaultReturn + "/applications"
	activityPath     = defaultReturn + "/activity"
	dataPath         = defaultReturn + "/data"

	kindBack = "back" // cookie with where the person came from, which is judged each time
)

// onAccount is a request for a page of a person's own account that may go on.
type onAccount struct {
	si *signedIn
	u  *config.Units
	// level is what the request has been held against: see still.
	level int
	path  string // of the page, where Cancel and a form that is refused lead
	csrf  string
	// flow is the sign-in that goes on after a contact is confirmed, client whom it leads to. Empty: the person is at their profile
	flow   string
	client login.Client
}

// dashboardLevel is the level that every page of the account needs.
func dashboardLevel(u *config.Units) int { return u.StepUp.Actions.DashboardStepUpAuthenticationLevel }

// guard returns who may see the page at path, which needs the level of the account pages and further ones, and the token of its forms. Otherwise
// it has written the answer and is not ok.
func (s *Service) guard(w http.ResponseWriter, r *http.Request, path string, further ...func(*config.Units) int) (*onAccount, bool) {
	u, err := s.configured(r.Context())
	if err != nil {
		s.fail(w, r, err, path)
		return nil, false
	}
	a := &onAccount{u: u, level: dashboardLevel(u), path: path}
	for _, f := range further {
		a.level = max(a.level, f(u))
	}
	ok := false
	if a.si, ok = s.requireLevel(w, r, a.level, path); !ok {
		return nil, false
	}
	if a.csrf, err = s.securityForm(w, r, a.si, path); err != nil {
		s.fail(w, r, err, path)
		return nil, false
	}
	return a, true
}

// guardPost is guard for a POST of a form of the page.
func (s *Service) guardPost(w http.ResponseWriter, r *http.Request, path string, further ...func(*config.Units) int) (*onAccount, bool) {
	a, ok := s.guard(w, r, path, further...)
	return a, ok && s.checkSecurityForm(w, r, a.si, path, path)
}

// still returns errMismatch when, by now, the session may not do what the request was let in for.
func (s *Service) still(tx storage.Tx, a *onAccount) error {
	rec, err := s.live(tx, a.si.id, s.Now())
	if errors.Is(err, storage.ErrNotFound) {
		return errMismatch
	}
	if err != nil {
		return err
	}
	p, err := persons.Get(tx, a.si.session.PersonID)
	if err == nil && (rec.PersonID != a.si.session.PersonID || rec.Level < a.level || p.State != Active || p.Epoch != rec.Epoch) {
		err = errMismatch
	}
	return err
}

// actor is the person of the request, whose own session stays.
func (s *Service) actor(r *http.Request, si *signedIn) Actor {
	return Actor{ID: si.session.PersonID, Name: si.person.Username, Session: si.id, Origin: s.Origin(r)}
}

// accountPage writes a page of the account, in the language of the person.
func (s *Service) accountPage(w http.ResponseWriter, r *http.Request, a *onAccount, status int, d page.Dashboard) {
	if d.Done == "" {
		d.Done = done(r)
	}
	s.Pages.Render(w, r, page.View{Template: "dashboard", Status: status, Locales: a.si.locales(), Nav: s.nav(r, a.u), Data: d})
}

// locales are the languages that a person has chosen.
func (si *signedIn) locales() []string {
	if si.person.Locale == "" {
		return nil
	}
	return []string{si.person.Locale}
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

func doneURL(path, what string) string { return path + "?" + url.Values{"done": {what}}.Encode() }

// nav returns the navigation of the account pages.
func (s *Service) nav(r *http.Request, u *config.Units) *page.Nav {
	n := &page.Nav{}
	for _, e := range []page.NavEntry{
		{Label: "account.overview", URL: defaultReturn, Icon: "person"},
		{Label: "account.profile", URL: profilePath, Icon: "pencil"},
		{Label: "account.security", URL: securityPath, Icon: "lock"},
		{Label: "account.devices", URL: devicesPath, Icon: "device"},
		{Label: "account.applications", URL: applicationsPath, Icon: "app"},
		{Label: "account.activity", URL: activityPath, Icon: "clock"},
		{Label: "account.data", URL: dataPath, Icon: "info"},
	} {
		e.Current = r.URL.Path == e.URL || e.URL != defaultReturn && strings.HasPrefix(r.URL.Path, e.URL+"/")
		n.Entries = append(n.Entries, e)
	}
	from, _ := base64.RawURLEncoding.DecodeString(s.jar.Get(r, kindBack)) // what is none is not allowed either
	if back, err := url.Parse(allowed(u, string(from))); err == nil && back.Host != "" {
		n.Back, n.BackName = back.String(), back.Hostname()
	}
	return n
}

// rememberBack keeps where the parameter redirect says that the person came from: a whitelisted URL.
func (s *Service) rememberBack(w http.ResponseWriter, r *http.Request, u *config.Units) bool {
	from := r.URL.Query().Get("redirect")
	if from == "" {
		return false
	}
	if to := allowed(u, from); to != "" && len(targetsOf(to)) > 0 && len(to) <= 1024 {
		s.jar.Set(w, kindBack, base64.RawURLEncoding.EncodeToString([]byte(to)), 0)
	}
	s.redirect(w, r, defaultReturn)
	return true
}

// showAccount serves GET /account: who is signed in, and what needs their attention. The parameter redirect names where they came from.
func (s *Service) showAccount(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guard(w, r, defaultReturn)
	if !ok || s.rememberBack(w, r, a.u) {
		return
	}
	out, err := s.signOutToken(w, r, a.si)
	if err != nil {
		s.fail(w, r, err, defaultReturn)
		return
	}
	p, d := a.si.person, page.Dashboard{Key: "overview"}
	if !a.u.Attributes.NameVisibleOnDashboard {
		p.Name = ""
	}
	who := page.Part{}
	for _, f := range []page.Fact{
		{Label: "account.username", Value: p.Username},
		{Label: "account.name", Value: p.Name},
		{Label: "account.email", Value: p.Email},
		{Label: "account.groups", Value: strings.Join(p.Groups, ", ")},
	} {
		if f.Value != "" {
			who.Facts = append(who.Facts, f)
		}
	}
	d.Parts = append(d.Parts, who)
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		rows, err := s.attention(tx, a)
		if err == nil && len(rows) > 0 {
			d.Parts = append(d.Parts[:1], page.Part{ID: "attention", Title: page.Say("account.attention"), Rows: rows})
		}
		return err
	})
	if err != nil {
		s.fail(w, r, err, defaultReturn)
		return
	}
	d.Parts = append(d.Parts, page.Part{
		ID: "sign-out", Text: page.Say("account.signed_in"),
		Form: &page.PartForm{Action: "/sign-out", CSRF: out, Submit: "account.sign_out", Quiet: true},
	})
	s.accountPage(w, r, a, http.StatusOK, d)
}

// attention is what the person should do about their account.
func (s *Service) attention(tx storage.Tx, a *onAccount) (rows []page.Row, err error) {
	st, err := s.readStanding(tx, a.si)
	if err != nil {
		return nil, err
	}
	add := func(icon, key, label, to string, fill ...any) {
		rows = append(rows, page.Row{Icon: icon, Title: page.Say(key, fill...), Actions: []page.Action{{Label: label, URL: to}}})
	}
	switch p := a.si.person; {
	case p.Email == "":
		add("mail", "attention.email_missing", "attention.add", profilePath)
	case !p.EmailVerified && s.verifiesEmail(a.u):
		add("mail", "attention.email_unverified", "attention.verify", profilePath)
	}
	if len(st.has) == 0 && len(st.settable(passwordLevel)) > 0 {
		add("lock", "attention.second_missing", "attention.set_up", securityPath)
	}
	if pick(st.has, totpMethod.name) != nil && len(st.own.Recovery) < fewRecoveryCodes {
		add("key", "attention.recovery", "security.recovery.new", recoveryPath, "n", len(st.own.Recovery))
	}
	return rows, nil
}

// fewRecoveryCodes is when a person is reminded to make new ones.
const fewRecoveryCodes = 3

// verifiesEmail tells whether addresses are shown to be a person's own by a code.
func (s *Service) verifiesEmail(u *config.Units) bool {
	return s.Notify != nil && u.Attributes.Verification.EmailEnabled
}

// requireLevel returns the browser's sign-in when it has a level, for a page of ours at ret. Otherwise it has sent the browser to the page
// that gets it there, or said that it cannot get there, and is not ok. Every page that shows or changes what is a person's own passes it.
func (s *Service) requireLevel(w http.ResponseWriter, r *http.Request, level int, ret string) (*signedIn, bool) {
	_, err := s.authenticator.Authenticate(w, r, login.Demand{MaxAge: -1, Level: level, Return: ret})
	refusal := new(login.Refusal)
	switch {
	case errors.Is(err, login.ErrResponded):
		return nil, false
	case errors.As(err, &refusal) && refusal.Code == unmetLevel:
		s.Log.Info("page refused", zap.String("path", r.URL.Path), zap.NamedError("cause", err))
		s.Pages.Error(w, r, http.StatusForbidden, "error.level", "")
		return nil, false
	case err != nil:
		s.failSignIn(w, r, err, ret)
		return nil, false
	}
	si, err := s.current(r)
	if err != nil {
		s.fail(w, r, err, ret)
		return nil, false
	}
	if si == nil || si.session.Level < level { // ended this very moment
		s.redirect(w, r, "/sign-in")
		return nil, false
	}
	return si, true
}

// authenticator asks for a sign-in. It is the whole service.
type authenticator interface {
	// Authenticate returns the browser's sign-in when it satisfies d. Otherwise it has sent the browser to sign in and returns login.ErrResponded, or
	// returns a *login.Refusal.
	Authenticate(w http.ResponseWriter, r *http.Request, d login.Demand) (*login.Result, error)
}

// authenticateBy sets who asks for sign-ins. New calls it before the service is used.
func (s *Service) authenticateBy(a authenticator) { s.authenticator = a }

// failSignIn writes the page for a sign-in that nobody but the person has asked for.
func (s *Service) failSignIn(w http.ResponseWriter, r *http.Request, err error, again string) {
	if refusal := new(login.Refusal); errors.As(err, &refusal) {
		s.Log.Info("sign-in refused", zap.NamedError("cause", err))
		s.Pages.Error(w, r, http.StatusForbidden, "error.refused", again)
		return
	}
	s.fail(w, r, err, again)
}
