package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// freshness is how old the sign-in of somebody is at most who changes something.
	freshness = 15 * time.Minute
	// sinceParam keeps the addresses apart to which sign-ins lead back: see admit.
	sinceParam = "since"
)

// visit is a request of somebody who may see the screen.
type visit struct {
	*front.Request

	screen *screen
	role   Role
	now    time.Time

	// What the screen is about, as its find has read it. One of them is set, or none.
	person *manage.PersonDetails
	group  *person.Group
	client *registry.Info
	// rank is the role that it has itself, self that it is the person of the visit.
	rank Role
	self bool
}

// me is the id of the person of the visit.
func (v *visit) me() string { return v.SignIn.Session.PersonID }

// path is that of the screen, with what it is about.
func (v *visit) path() string {
	return Root + strings.ReplaceAll(v.screen.path, "{id}", url.PathEscape(v.PathValue("id")))
}

// denied answers somebody who may not see or do something.
func denied(why string) error {
	return &front.Answer{Status: http.StatusForbidden, Key: "error.console", Again: "", Cause: errors.New("console: " + why)}
}

// admit lets somebody see a screen, or returns what answers them: a way to sign in, to raise the sign-in, or a refusal.
// Somebody who changes something must have signed in of late. A sign-in counts for the address that it was demanded for
// whatever its age (front.Meets), so that demands do not lead in circles; that address therefore holds the quarter of
// an hour in which it is demanded.
func (c *Console) admit(q *front.Request, s *screen, need Role, fresh bool) (*visit, error) {
	if !q.Settings.Features.AdminConsoleEnabled {
		return nil, front.NotFound()
	}
	v := &visit{Request: q, screen: s, now: c.Now()}
	if q.SignIn != nil {
		if v.role = c.roleOf(q.SignIn.Person.PartitionName(), q.SignIn.Person.Groups); v.role < need {
			return nil, denied("the role does not reach")
		}
	}
	d := login.Demand{MaxAge: -1, Level: c.cfg.Level, Return: returnTo(q, "")}
	if fresh {
		d.MaxAge, d.Return = freshness, returnTo(q, strconv.FormatInt(v.now.Truncate(freshness).Unix(), 10))
	}
	q.Again = d.Return
	found, err := c.Identity.AuthenticateRequest(q, d)
	refusal := new(login.Refusal)
	switch {
	case errors.As(err, &refusal) && refusal.Code == front.UnmetLevel:
		return nil, &front.Answer{Status: http.StatusForbidden, Key: "error.level", Again: front.SecurityPath, Cause: err}
	case err != nil:
		return nil, front.SignInError(err, d.Return)
	}
	if q.SignIn == nil || q.SignIn.ID != found.SessionID || q.SignIn.Session.Level < c.cfg.Level || v.role < need { // replaced this very moment
		if err := q.Redirect(d.Return); err != nil {
			return nil, err
		}
		return nil, front.ErrAnswered
	}
	if s.find != nil {
		err = s.find(c, v)
	}
	return v, err
}

// returnTo is where a browser comes back to after a sign-in: the page of the request, which a form was on.
func returnTo(q *front.Request, since string) string {
	params := q.URL.Query()
	if params.Del(sinceParam); since != "" {
		params.Set(sinceParam, since)
	}
	to := q.URL.EscapedPath()
	if len(params) > 0 {
		to += "?" + params.Encode()
	}
	if page.LocalPath(to) == "" { // an address that is too long
		return Root
	}
	return to
}

// may tells whether the person of the visit may do something to what the screen is about: they have the role, it is not
// themselves, and it does not have as much to say as they have. Owners look after each other.
func (c *Console) may(v *visit, a *act) error {
	switch {
	case v.role < a.role:
		return denied("the role does not reach")
	case v.self && !a.own:
		return denied("nobody does this to themselves")
	case !v.outranks(v.rank) && !v.self:
		return denied("the other one has as much to say")
	case v.rank == Owner && a.spares:
		return denied("an owner has to stop being one first")
	case a.may != nil:
		return a.may(c, v)
	}
	return nil
}

// outranks tells whether the person of the visit may act on somebody of a role. Owners look after each other.
func (v *visit) outranks(rank Role) bool { return v.role == Owner || rank < v.role }

// recheck returns an error when, by now, the person of the visit is not signed in any more or has lost their role.
// Transactions that give or take rights begin with it.
func (c *Console) recheck(tx storage.Tx, v *visit) error {
	rec, err := c.Identity.Session.Live(tx, v.SignIn.ID, v.now)
	if errors.Is(err, storage.ErrNotFound) {
		return denied("the session has ended")
	}
	if err != nil {
		return err
	}
	_, p, err := c.Identity.Person.Find(tx, v.me())
	if err != nil {
		return err
	}
	if p.State != person.Active || p.Epoch != rec.Epoch || c.roleOf(p.PartitionName(), p.Groups) < v.role {
		return denied("the rights have been taken away")
	}
	return nil
}

// actor is the person of the visit, as the cause of what happens.
func (c *Console) actor(v *visit) event.Actor {
	return c.Identity.Front.Actor(v.Request.Request, v.SignIn)
}

// showScreen serves the GET of a screen.
func (c *Console) showScreen(s *screen) front.Handler {
	return func(q *front.Request) error {
		v, err := c.admit(q, s, s.role, false)
		if err != nil {
			return err
		}
		out, err := s.show(c, v)
		if err != nil {
			return err
		}
		if done := q.URL.Query().Get("done"); isAct(done) {
			out.Done = page.Say("console.done." + done)
		}
		return c.render(v, http.StatusOK, out)
	}
}

// isAct tells whether a word is the name of an act.
func isAct(name string) bool {
	for _, s := range screens() {
		if s.act(name) != nil {
			return true
		}
	}
	return false
}

// render writes a page of the console.
func (c *Console) render(v *visit, status int, d *page.Console) error {
	nav, err := c.nav(v)
	if err != nil {
		return err
	}
	c.Pages.Render(v.W, v.Request.Request, page.View{Template: "console", Status: status, Locales: v.SignIn.Locales(), Nav: nav, Data: *d})
	return nil
}

// nav is the navigation for the role.
func (c *Console) nav(v *visit) (*page.Nav, error) {
	n, err := c.Identity.Front.Nav(v.Request)
	if err != nil {
		return nil, err
	}
	n.Label, n.Entries, n.Back, n.BackName = "console.menu", nil, "", ""
	current := ""
	for _, s := range screens() {
		at := Root + s.path
		if s.icon == "" || v.role < s.role {
			continue
		}
		n.Entries = append(n.Entries, page.NavEntry{Label: "console." + s.name + ".title", URL: at, Icon: s.icon})
		if p := v.URL.Path; (p == at || at != Root && strings.HasPrefix(p, at+"/")) && len(at) > len(current) {
			current = at
		}
	}
	for i := range n.Entries {
		n.Entries[i].Current = n.Entries[i].URL == current
	}
	return n, nil
}

// entrance is the way to the console on the pages of an account, for those who may see it.
func (c *Console) entrance(q *front.Request) []page.NavEntry {
	if !q.Settings.Features.AdminConsoleEnabled || c.roleOf(q.SignIn.Person.PartitionName(), q.SignIn.Person.Groups) == Nobody {
		return nil
	}
	return []page.NavEntry{{Label: "console.menu", URL: Root, Icon: "gear"}}
}
