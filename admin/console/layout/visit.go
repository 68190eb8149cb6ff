package layout

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// Rows is the number of rows of a list on one page.
	Rows = 50
	// freshness is the maximum age of a sign-in for making changes.
	freshness = 15 * time.Minute
	// SinceParam keeps the addresses apart to which sign-ins lead back: see admit.
	SinceParam = "since"
)

// Visit is a request of someone who may see the screen.
type Visit struct {
	*webflow.Request

	Screen *Screen
	Role   Role
	Now    time.Time
	Upload *web.Upload // the files of an act that takes some. nil: it is shown, or takes none

	// What the screen is about, as its Find has read it, and what it is called. nil: nothing of its own.
	About  any
	Called string
	// Words is the name in words, if there are any.
	Words web.Text
	// Rank is the role that it has itself, Self that it is the person of the visit.
	Rank Role
	Self bool

	frame *Frame
	act   *Act // that is done. nil: the screen is shown
}

// Me is the id of the person of the visit.
func (v *Visit) Me() string { return v.SignIn.Session.PersonID }

// Path is that of the screen, with what it is about.
func (v *Visit) Path() string {
	return Root + strings.ReplaceAll(v.Screen.Path, "{id}", url.PathEscape(v.PathValue("id")))
}

// Denied answers someone who may not see or do something.
func Denied(why string) error {
	return &webflow.Answer{Status: http.StatusForbidden, Key: "error.console", Again: "", Cause: errors.New("console: " + why)}
}

// admit lets someone see a screen, or returns what answers them: a way to sign in, to raise the sign-in, or a refusal.
// Someone who changes something must have signed in recently. A sign-in counts for the address that it was demanded for
// whatever its age (webflow.Meets), so demands do not lead in circles; that address therefore holds the quarter of an
// hour in which it is demanded.
func (f *Frame) admit(q *webflow.Request, s *Screen, need Role, fresh bool) (*Visit, error) {
	if !q.Settings.Features.AdminConsoleEnabled {
		return nil, webflow.NotFound()
	}
	v := &Visit{Request: q, Screen: s, Now: f.Now(), frame: f}
	if q.SignIn != nil {
		if v.Role = f.RoleOf(q.SignIn.Person.PartitionName(), q.SignIn.Person.Groups); v.Role < need {
			return nil, Denied("the role does not reach")
		}
		if !q.Settings.AdmitsRoles(q.SignIn.Session.Provider) {
			return nil, Denied("the login method " + q.SignIn.Session.Provider + " is not allowed for people with a role")
		}
	}
	d := authn.Demand{MaxAge: -1, Level: f.Level, Return: returnTo(q, "")}
	d.Unused = !fresh // showScreen says
	if fresh {
		d.MaxAge, d.Return = freshness, returnTo(q, strconv.FormatInt(v.Now.Truncate(freshness).Unix(), 10))
	}
	q.Again = d.Return
	found, err := f.Identity.AuthenticateRequest(q, d)
	refusal := new(authn.Refusal)
	switch {
	case errors.As(err, &refusal) && refusal.Code == webflow.UnmetLevel:
		return nil, &webflow.Answer{Status: http.StatusForbidden, Key: "error.level", Again: webflow.SecurityPath, Cause: err}
	case err != nil:
		return nil, webflow.SignInError(err, d.Return)
	}
	if q.SignIn == nil || q.SignIn.ID != found.SessionID || q.SignIn.Session.Level < f.Level || v.Role < need { // replaced this very moment
		if err := q.Redirect(d.Return); err != nil {
			return nil, err
		}
		return nil, webflow.ErrAnswered
	}
	if s.Find != nil {
		err = s.Find(v)
	}
	return v, err
}

// returnTo returns the place of a browser after a sign-in: the page of the request, which a form was on.
func returnTo(q *webflow.Request, since string) string {
	params := q.URL.Query()
	if params.Del(SinceParam); since != "" {
		params.Set(SinceParam, since)
	}
	to := q.URL.EscapedPath()
	if len(params) > 0 {
		to += "?" + params.Encode()
	}
	if web.LocalPath(to) == "" { // an address that is too long
		return Root
	}
	return to
}

// May reports whether the person of the visit may do something to what the screen is about: they have the role, and the
// target is another person of lower rank. Owners may act on owners.
func (v *Visit) May(a *Act) error {
	switch {
	case v.Role < a.Role:
		return Denied("the role does not reach")
	case v.Self && !a.Own:
		return Denied("you cannot do this to yourself")
	case !v.Outranks(v.Rank) && !v.Self:
		return Denied("the other person is of equal or higher rank")
	case v.Rank == Owner && a.Spares:
		return Denied("an owner has to stop being one first")
	case a.May != nil:
		return a.May(v)
	}
	return nil
}

// Outranks reports whether the person of the visit may act on someone of a role. Owners may act on owners.
func (v *Visit) Outranks(rank Role) bool { return v.Role == Owner || rank < v.Role }

// Recheck returns an error when, by now, the person of the visit is not signed in any more or has lost their role.
// Transactions that give or take rights begin with it.
func (v *Visit) Recheck(tx storage.Tx) error {
	f := v.frame
	rec, err := f.Identity.Session.Live(tx, v.SignIn.ID, v.Now)
	if errors.Is(err, storage.ErrNotFound) {
		return Denied("the session has ended")
	}
	if err != nil {
		return err
	}
	_, p, err := f.Identity.Person.Find(tx, v.Me())
	if err != nil {
		return err
	}
	if p.State != person.Active || p.Epoch != rec.Epoch || f.RoleOf(p.PartitionName(), p.Groups) < v.Role {
		return Denied("the rights have been taken away")
	}
	return nil
}

// Writing returns the context of a change of the settings. The person must have the role at that moment, too, and
// only owners change the settings of sign-in.
func (v *Visit) Writing() context.Context {
	rights := settings.Ordinary
	if v.Role == Owner {
		rights = settings.Owner
	}
	return settings.WithRights(storage.Guarded(v.Context(), v.Recheck), rights)
}

// Actor is the person of the visit, as the cause of what happens. What the person has lost the right to since the page
// was asked for does not happen: the transaction of its event looks again.
func (v *Visit) Actor() audit.Actor {
	by := v.frame.Identity.Front.Actor(v.Request.Request, v.SignIn)
	by.BelowOwner = v.Role < Owner
	if v.act != nil && !v.Self { // who ends their own sessions ends this one
		by.Check = v.still
	}
	return by
}

// still returns an error when, by now, the person of the visit may not do the act any more.
func (v *Visit) still(tx storage.Tx) error {
	if err := v.Recheck(tx); err != nil || v.Screen.Rank == nil {
		return err
	}
	rank, err := v.Screen.Rank(v, tx)
	switch {
	case err != nil:
		return err
	case !v.Outranks(rank):
		return Denied("the other person is of equal or higher rank")
	case rank == Owner && v.act.Spares:
		return Denied("an owner has to stop being one first")
	}
	return nil
}

// showScreen serves the GET of a screen.
func (f *Frame) showScreen(s *Screen) webflow.Handler {
	return func(q *webflow.Request) error {
		if s.Feed != nil && wantsStream(q) {
			return f.stream(q, s)
		}
		v, err := f.admit(q, s, s.Role, false)
		if err != nil {
			return err
		}
		out, err := s.Show(v)
		if err == nil && out.Refresh == 0 || errors.Is(err, webflow.ErrAnswered) {
			// A page that loads itself again would keep the session from ending while no one is there.
			f.Identity.Session.Use(q.Request, q.SignIn)
		}
		if err != nil {
			return err
		}
		if done := q.URL.Query().Get("done"); f.isAct(done) {
			out.Done = web.Say("console.done." + done)
			if out.Undo, err = f.undoForm(v, done); err != nil {
				return err
			}
		}
		return f.render(v, http.StatusOK, out)
	}
}

// isAct reports whether a word is the name of an act.
func (f *Frame) isAct(name string) bool {
	for _, s := range f.screens {
		if s.Act(name) != nil {
			return true
		}
	}
	return false
}

// render writes a page of the console.
func (f *Frame) render(v *Visit, status int, d *web.Console) error {
	nav, err := f.nav(v)
	if err != nil {
		return err
	}
	f.Pages.Render(v.W, v.Request.Request, web.View{Template: "console", Status: status, Locales: v.SignIn.Locales(), Nav: nav, Data: *d})
	return nil
}

// Entrance is the way to the console on the pages of an account, for those who may see it.
func (f *Frame) Entrance(q *webflow.Request) []web.NavEntry {
	if !q.Settings.Features.AdminConsoleEnabled || f.RoleOf(q.SignIn.Person.PartitionName(), q.SignIn.Person.Groups) == Nobody {
		return nil
	}
	return []web.NavEntry{{Label: "console.menu", URL: Root, Icon: "gear"}}
}
