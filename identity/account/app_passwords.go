package account

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	appPasswordsPath      = webflow.SecurityPath + "/app-passwords"
	appPasswordsPerPerson = 10 // that a person makes before the first wait
	maxAppPasswordName    = 64 // characters
	maxAppPasswordUses    = 1_000_000
)

// appPasswordDays are the lifetimes to choose from. The second is the usual one.
var appPasswordDays = []string{"30", "90", "365"}

// AppPasswords keeps the app passwords of persons. authz implements it.
type AppPasswords interface {
	// OfferedTo returns the sites for which a person can make an app password, with the scopes that the level of their
	// sign-in allows. Empty: none, or app passwords are switched off.
	OfferedTo(tx storage.Tx, person string, level int) ([]authn.AppPasswordSite, error)
	// List returns the app passwords of a person that work now.
	List(tx storage.Tx, person string, now time.Time) ([]authn.AppPassword, error)
	// Make makes one. first is called in the transaction before anything is written, last afterwards. It returns
	// authn.ErrNotOffered or authn.ErrTooManyAppPasswords.
	Make(ctx context.Context, q authn.AppPasswordRequest, by audit.Actor, first, last func(tx storage.Tx) error) (secret.String, error)
	// Revoke ends one, or returns storage.ErrNotFound. first is called in the transaction before anything is written.
	Revoke(ctx context.Context, person, id string, by audit.Actor, first func(tx storage.Tx) error) error
}

// TieAppPasswords sets who keeps app passwords. It is called before the service is used, if at all.
func (s *Service) TieAppPasswords(p AppPasswords) { s.appPasswords = p }

// noAppPasswords is the answer of a service without an authorization server.
type noAppPasswords struct{}

func (noAppPasswords) OfferedTo(storage.Tx, string, int) ([]authn.AppPasswordSite, error) {
	return nil, nil
}

func (noAppPasswords) List(storage.Tx, string, time.Time) ([]authn.AppPassword, error) {
	return nil, nil
}

func (noAppPasswords) Make(context.Context, authn.AppPasswordRequest, audit.Actor, func(storage.Tx) error,
	func(storage.Tx) error,
) (secret.String, error) {
	return secret.String{}, authn.ErrNotOffered
}

func (noAppPasswords) Revoke(context.Context, string, string, audit.Actor, func(storage.Tx) error) error {
	return storage.ErrNotFound
}

// AppPasswordsSection is the part of the security page about app passwords. It is nil where no site accepts any.
func (s *Service) AppPasswordsSection(tx storage.Tx, q *webflow.Request, _ *mfa.Standing) (*web.SecuritySection, error) {
	have, offered, err := s.readAppPasswords(tx, q.SignIn, time.Time{}) // storage collects those that have expired
	if err != nil || len(have)+len(offered) == 0 {
		return nil, err
	}
	out := &web.SecuritySection{
		Key: "app_passwords", State: "off", Count: len(have),
		Actions: []web.SecurityAction{{Label: "security.app_passwords.manage", URL: appPasswordsPath}},
	}
	for i := range have {
		out.State = "on"
		out.Items = append(out.Items, web.Row{Icon: "key", Name: have[i].Name})
	}
	return out, nil
}

func (s *Service) readAppPasswords(tx storage.Tx, si *session.Current, now time.Time) (have []authn.AppPassword,
	offered []authn.AppPasswordSite, err error,
) {
	if have, err = s.appPasswords.List(tx, si.Session.PersonID, now); err == nil {
		offered, err = s.appPasswords.OfferedTo(tx, si.Session.PersonID, si.Session.Level)
	}
	return have, offered, err
}

// appPasswordsVisit is a visit to the page of app passwords, with what the person typed.
type appPasswordsVisit struct {
	*webflow.Visit

	have    []authn.AppPassword
	offered []authn.AppPasswordSite
	form    appPasswordForm
}

type appPasswordForm struct {
	name, days, uses string
	sites, scopes    []string

	nameProblem, usesProblem string
}

// visitAppPasswords admits a person who can make app passwords. One opens sites for a long time without a sign-in, so
// it needs the level of setting up a method.
func (s *Service) visitAppPasswords(q *webflow.Request, admit guard) (*appPasswordsVisit, error) {
	v := &appPasswordsVisit{form: appPasswordForm{days: appPasswordDays[1]}}
	now := s.deps.Now()
	var err error
	v.Visit, err = s.visit(q, admit, appPasswordsPath, func(tx storage.Tx, st *mfa.Standing) (_ int, err error) {
		v.have, v.offered, err = s.readAppPasswords(tx, q.SignIn, now)
		return st.SetUpLevel(), err
	})
	if err == nil && len(v.have)+len(v.offered) == 0 {
		err = webflow.NotFound()
	}
	return v, err
}

// showAppPasswords serves GET /account/security/app-passwords.
func (s *Service) showAppPasswords(q *webflow.Request) error {
	v, err := s.visitAppPasswords(q, s.deps.Front.VisitOf)
	if err != nil {
		return err
	}
	if len(v.offered) == 1 {
		v.form.sites = []string{v.offered[0].Origin}
	}
	v.form.scopes = v.scopeNames()
	return s.renderAppPasswords(v, http.StatusOK, web.Dashboard{})
}

// scopeNames are the scopes of all sites, once each.
func (v *appPasswordsVisit) scopeNames() (names []string) {
	for _, o := range v.offered {
		for _, sc := range o.Scopes {
			if !slices.Contains(names, sc.Name) {
				names = append(names, sc.Name)
			}
		}
	}
	return names
}

// renderAppPasswords writes the page: what was just made, the app passwords, and the form for another one.
func (s *Service) renderAppPasswords(v *appPasswordsVisit, status int, d web.Dashboard) error {
	d.Key, d.Cancel = "app_passwords", webflow.SecurityPath
	list := web.Part{Empty: "app_password.none"}
	if len(v.have) > 0 {
		list.ID, list.Title = "have", web.Say("app_password.have")
	}
	for i := range v.have {
		list.Rows = append(list.Rows, appPasswordRow(v.Visit, &v.have[i]))
	}
	d.Parts = append(d.Parts, list)
	if len(v.offered) > 0 {
		form := &web.PartForm{
			Action: appPasswordsPath, CSRF: v.CSRF, Submit: "app_password.make",
			Fields: web.Fields(d.Problem != "", v.fields()...),
		}
		if len(d.Parts) > 1 {
			form.Quiet = true
			for i := range form.Fields {
				form.Fields[i].Focus = false
			}
		}
		d.Parts = append(d.Parts, web.Part{ID: "new", Title: web.Say("app_password.new"), Text: web.Say("app_password.new.text"), Form: form})
	}
	return s.render(v.Visit, status, d)
}

// siteHost returns the name of a site for people.
func siteHost(origin string) string {
	if u, err := url.Parse(origin); err == nil && u.Host != "" {
		return u.Host
	}
	return origin
}

func hostsOf(sites []string) string {
	out := make([]string, len(sites))
	for i, origin := range sites {
		out[i] = siteHost(origin)
	}
	return strings.Join(out, ", ")
}

func appPasswordRow(a *webflow.Visit, p *authn.AppPassword) web.Row {
	row := web.Row{Icon: "key", Name: p.Name, Details: []web.Text{
		web.Say("app_password.for", "sites", hostsOf(p.Sites)), web.Say("app_password.since", "time", p.Since),
		web.Say("app_password.until", "time", p.Until),
	}}
	if p.Last.IsZero() {
		row.Details = append(row.Details, web.Say("app_password.unused"))
	} else {
		row.Details = append(row.Details, web.Say("app_password.last", "time", p.Last, "address", p.LastAddress, "site", siteHost(p.LastSite)))
	}
	if p.Limit > 0 {
		row.Details = append(row.Details, web.Say("app_password.uses", "n", strconv.Itoa(p.Count), "most", strconv.Itoa(p.Limit)))
	}
	for _, name := range p.Scopes {
		row.Scopes = append(row.Scopes, web.ScopeLine{Name: name})
	}
	row.Actions = []web.Action{{
		Label: "app_password.revoke", URL: appPasswordsPath, CSRF: a.CSRF,
		Fields: []web.Hidden{{Name: "revoke", Value: p.ID}}, Danger: true,
	}}
	return row
}

// fields are those of the form, as the person has filled it in.
func (v *appPasswordsVisit) fields() []web.Field {
	f := &v.form
	list := []web.Field{{
		Name: "name", Label: "app_password.name", Hint: "app_password.name.hint", Value: f.name, Required: true,
		MaxLength: maxAppPasswordName, Problem: f.nameProblem,
	}}
	for i, o := range v.offered {
		list = append(list, web.Field{
			Name: siteField + strconv.Itoa(i), Type: "checkbox", Label: "app_password.site",
			LabelFill: []any{"site", siteHost(o.Origin)}, Value: o.Origin,
			Checked: slices.Contains(f.sites, o.Origin),
		})
	}
	for i, name := range v.scopeNames() {
		field := web.Field{
			Name: scopeField + strconv.Itoa(i), Type: "checkbox", Label: "app_password.scope",
			LabelFill: []any{"scope", v.describe(name)}, Value: name,
			Checked: slices.Contains(f.scopes, name),
		}
		list = append(list, field)
	}
	days := web.Field{Name: "days", Type: "select", Label: "app_password.days", Value: f.days}
	for _, n := range appPasswordDays {
		days.Options = append(days.Options, web.Option{Value: n, Label: "app_password.days." + n})
	}
	return append(list, days, web.Field{
		Name: "uses", Label: "app_password.limit", Hint: "app_password.limit.hint", Value: f.uses, InputMode: "numeric",
		MaxLength: len(strconv.Itoa(maxAppPasswordUses)), Problem: f.usesProblem,
	})
}

// describe returns what people read about a scope.
func (v *appPasswordsVisit) describe(name string) string {
	for _, o := range v.offered {
		for _, sc := range o.Scopes {
			if sc.Name == name && sc.Description != "" {
				return sc.Description
			}
		}
	}
	return name
}

// Names of the check boxes, without their numbers: a form must not repeat a field (internal/web).
const siteField, scopeField = "site-", "scope-"

// ticked returns the values of the boxes that are ticked, sorted, once each. Values count, not numbers: a site may be
// offered or withdrawn while the person chooses.
func (v *appPasswordsVisit) ticked(prefix string) (values []string) {
	for name := range v.PostForm {
		if strings.HasPrefix(name, prefix) {
			values = append(values, v.PostForm.Get(name))
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// read takes what was typed. problem is what is wrong with it as a whole, good reports whether it can be used.
func (v *appPasswordsVisit) read() (q authn.AppPasswordRequest, problem string, good bool) {
	f := &v.form
	f.name, f.days, f.uses = strings.TrimSpace(v.PostForm.Get("name")), v.PostForm.Get("days"), strings.TrimSpace(v.PostForm.Get("uses"))
	f.sites, f.scopes = v.ticked(siteField), v.ticked(scopeField)
	if f.name == "" || utf8.RuneCountInString(f.name) > maxAppPasswordName || !utf8.ValidString(f.name) || authn.Turns(f.name) ||
		strings.ContainsFunc(f.name, unicode.IsControl) {
		f.nameProblem = "app_password.problem.name"
	}
	if f.uses != "" {
		n, err := strconv.Atoi(f.uses)
		if q.Limit = n; err != nil || n < 1 || n > maxAppPasswordUses {
			f.usesProblem = "app_password.problem.uses"
		}
	}
	if !slices.Contains(appPasswordDays, f.days) {
		f.days = appPasswordDays[1]
	}
	if len(f.sites) == 0 {
		problem = "app_password.problem.site"
	}
	days, err := strconv.Atoi(f.days)
	si := &v.SignIn.Session
	q.Person, q.Name, q.Sites, q.Scopes, q.Life = si.PersonID, f.name, f.sites, f.scopes,
		time.Duration(days)*24*time.Hour
	q.AuthTime, q.Level, q.AMR, q.Provider, q.Vouched = si.AuthTime, si.Level, si.AMR, si.Provider, si.Vouched
	return q, problem, err == nil && problem == "" && f.nameProblem == "" && f.usesProblem == ""
}

// handleAppPasswords serves POST /account/security/app-passwords: it makes an app password, which only this answer
// shows, or revokes one.
func (s *Service) handleAppPasswords(q *webflow.Request) error {
	v, err := s.visitAppPasswords(q, s.deps.Front.VisitPost)
	if err != nil {
		return err
	}
	if id := q.PostForm.Get("revoke"); id != "" {
		return s.revokeAppPassword(v, id)
	}
	wanted, problem, good := v.read()
	if !good {
		return s.renderAppPasswords(v, http.StatusUnprocessableEntity, web.Dashboard{Problem: problem})
	}
	made, wait, err := s.makeAppPassword(v, wanted)
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(appPasswordsPath)
	case errors.Is(err, authn.ErrNotOffered):
		return s.renderAppPasswords(v, http.StatusUnprocessableEntity, web.Dashboard{Problem: "app_password.problem.offered"})
	case errors.Is(err, authn.ErrTooManyAppPasswords):
		return s.renderAppPasswords(v, http.StatusUnprocessableEntity, web.Dashboard{Problem: "app_password.problem.many"})
	case wait > 0:
		return s.renderAppPasswords(v, http.StatusTooManyRequests, throttle(v.Visit, wait))
	case err != nil:
		return err
	}
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		v.have, v.offered, err = s.readAppPasswords(tx, v.SignIn, now)
		return err
	})
	if err != nil {
		return err
	}
	v.form = appPasswordForm{days: v.form.days, sites: v.form.sites, scopes: v.form.scopes}
	return s.renderAppPasswords(v, http.StatusOK, web.Dashboard{Parts: []web.Part{{
		ID: "made", Title: web.Say("app_password.made", "name", wanted.Name),
		Code: &web.Code{
			Text:  web.Say("app_password.made.text", "username", v.SignIn.Person.Username, "sites", hostsOf(wanted.Sites)),
			Value: made.Reveal(),
		},
	}}})
}

// errWait undoes a transaction in which the person must wait.
var errWait = errors.New("too many app passwords in a short time")

// makeAppPassword makes an app password and tells the person by e-mail. wait is how long none is made.
func (s *Service) makeAppPassword(v *appPasswordsVisit, q authn.AppPasswordRequest) (made secret.String, wait time.Duration, err error) {
	now := s.deps.Now()
	first := func(tx storage.Tx) (err error) {
		wait = 0
		if _, err = s.deps.StepUp.CheckSetUp(tx, v.SignIn, now); err != nil {
			return err
		}
		if wait, err = s.deps.Proof.CountRequest(tx, "app-password", q.Person, appPasswordsPerPerson, now); err == nil && wait > 0 {
			err = errWait
		}
		return err
	}
	made, err = s.appPasswords.Make(v.Context(), q, s.caller(v.Visit), first,
		func(tx storage.Tx) error { return s.tellAppPassword(tx, q, now) })
	return made, wait, err
}

// tellAppPassword sends the notice of a new app password. No setting switches it off: it is sent wherever e-mails are.
func (s *Service) tellAppPassword(tx storage.Tx, q authn.AppPasswordRequest, now time.Time) error {
	if s.deps.Notify == nil {
		return nil
	}
	rec, err := person.Records.Get(tx, q.Person)
	if err != nil {
		return err
	}
	prof, err := person.ReadProfile(tx, q.Person, &rec)
	if err != nil {
		return err
	}
	n := person.Recipient{ID: q.Person, Record: &rec, Profile: &prof.Profile}.Notice(notify.AppPasswordMade, now)
	n.Data["app"], n.Data["sites"], n.Link = q.Name, hostsOf(q.Sites), appPasswordsPath
	return s.deps.Person.SendNotice(tx, n)
}

func (s *Service) revokeAppPassword(v *appPasswordsVisit, id string) error {
	now := s.deps.Now()
	err := s.appPasswords.Revoke(v.Context(), v.SignIn.Session.PersonID, id, s.caller(v.Visit),
		func(tx storage.Tx) error { return s.recheck(tx, v.Visit, now) })
	switch {
	case errors.Is(err, person.ErrMismatch), errors.Is(err, storage.ErrNotFound): // signed out, or revoked already
		return v.Redirect(appPasswordsPath)
	case err != nil:
		return err
	}
	if len(v.have) == 1 && len(v.offered) == 0 { // the page is gone with the last one
		return v.Redirect(webflow.SecurityPath)
	}
	return v.Redirect(doneURL(appPasswordsPath, "revoked"))
}
