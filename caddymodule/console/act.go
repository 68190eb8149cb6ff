package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// problem is why an act is not done, for the person who asked for it. Field is the one that is wrong, if one is.
type problem struct {
	field string
	key   string
	fill  []any
}

func (p *problem) Error() string { return "console: " + p.key }

// admitAct is admit for an act: the sign-in is young, and the rights reach.
func (c *Console) admitAct(q *front.Request, s *screen, a *act) (*visit, error) {
	v, err := c.admit(q, s, max(s.role, a.role), true)
	if err == nil {
		err = c.may(v, a)
	}
	return v, err
}

// showAct serves the GET of an act: what would happen, and the form that does it.
func (c *Console) showAct(s *screen, a *act) front.Handler {
	return func(q *front.Request) error {
		v, err := c.admitAct(q, s, a)
		if err != nil {
			return err
		}
		return c.renderAct(v, a, http.StatusOK, nil, nil)
	}
}

// handleAct serves the POST of an act.
func (c *Console) handleAct(s *screen, a *act) front.Handler {
	return func(q *front.Request) error {
		v, err := c.admitAct(q, s, a)
		if err != nil {
			return err
		}
		if err := c.Identity.Front.CheckForm(q, c.form(v, a), v.path()); err != nil {
			return err
		}
		done, err := a.do(c, v, q.PostForm)
		if wrong := problemOf(err); wrong != nil {
			return c.renderAct(v, a, http.StatusUnprocessableEntity, q.PostForm, wrong)
		}
		if err != nil {
			return err
		}
		if done.page != nil {
			return c.render(v, http.StatusOK, done.page)
		}
		to := cmp.Or(done.to, v.path())
		if page.LocalPath(to) == "" { // the id of the application is an address itself
			to = Root
		}
		return q.Redirect(to + "?" + url.Values{"done": {a.name}}.Encode())
	}
}

// form names the form of an act: it is of one session, one act and one object.
func (c *Console) form(v *visit, a *act) string {
	return front.SessionForm("console "+v.path()+" "+a.name, v.SignIn)
}

// renderAct writes the page of an act. in is what was entered, wrong what is wrong with it.
func (c *Console) renderAct(v *visit, a *act, status int, in url.Values, wrong *problem) (err error) {
	var ask question
	if a.ask != nil {
		if ask, err = a.ask(c, v); err != nil {
			return err
		}
	}
	key := "console.act." + a.name
	out := &page.Console{Title: page.Say(key + ".title"), Up: v.up(), Lead: page.Say(key+".text", append(ask.fill, "name", v.called())...)}
	for i := range ask.fields {
		f := &ask.fields[i]
		f.Label = cmp.Or(f.Label, "console.field."+f.Name)
		if in != nil {
			f.Value, f.Checked = in.Get(f.Name), f.Type == "checkbox" && in.Has(f.Name)
			if f.Type == "checkbox" || f.Type == "password" { // a password is in no page
				f.Value = ""
			}
		}
		if wrong != nil && wrong.field == f.Name {
			f.Problem, f.ProblemFill = wrong.key, wrong.fill
			wrong = nil
		}
	}
	if wrong != nil {
		out.Problem = page.Say(wrong.key, wrong.fill...)
	}
	form := &page.ConsoleForm{
		Action: v.path() + "/" + a.name, Submit: key, Cancel: v.path(), Hidden: ask.hidden, Danger: a.danger,
		Fields: page.Fields(wrong != nil, ask.fields...),
	}
	if form.CSRF, err = c.Identity.Front.FormToken(v.Request, c.form(v, a)); err != nil {
		return err
	}
	out.Parts = []page.ConsolePart{{Facts: ask.facts, Form: form}}
	return c.render(v, status, out)
}

// buttons are the acts of the screen that the person of the visit can do now.
func (c *Console) buttons(v *visit) (out []page.Action) {
	for _, a := range v.screen.acts {
		if !a.hidden && c.offers(v, a) {
			out = append(out, page.Action{Label: "console.act." + a.name, URL: v.path() + "/" + a.name, Danger: a.danger})
		}
	}
	return out
}

// offers tells whether the person of the visit can do something, and there is something to do.
func (c *Console) offers(v *visit, a *act) bool {
	return c.may(v, a) == nil && (a.when == nil || a.when(c, v))
}

// link is a cell with a link to an act on one part of what the screen is about. It is empty for somebody who may not.
func (c *Console) link(v *visit, name, param, value string) page.Cell {
	if !c.offers(v, v.screen.act(name)) {
		return page.Cell{}
	}
	return page.Cell{Text: page.Say("console.act." + name), URL: v.path() + "/" + name + "?" + url.Values{param: {value}}.Encode()}
}

// chosen asks for a part of what the screen is about: the parameter names it, and the form sends it along.
func chosen(v *visit, param string) (string, []page.Hidden) {
	value := v.URL.Query().Get(param)
	if v.Method == http.MethodPost {
		value = v.PostForm.Get(param)
	}
	return value, []page.Hidden{{Name: param, Value: value}}
}

// up leads from the page of an act to its screen.
func (v *visit) up() *page.Up {
	if name := v.called(); name != "" {
		return &page.Up{Name: name, URL: v.path()}
	}
	return &page.Up{Label: page.Say("console." + v.screen.name + ".title"), URL: v.path()}
}

// called is the name of what the screen is about.
func (v *visit) called() string {
	switch {
	case v.person != nil:
		return manage.Typed(v.person.Person)
	case v.group != nil:
		return v.group.Name
	case v.client != nil:
		return cmp.Or(v.client.Name, v.client.ID)
	}
	return ""
}

// fieldOf are the fields of forms by what the errors of persons and clients call them.
var fieldOf = map[string]string{"username": "username", "email": "email", "emails": "email", "name": "name", "givenName": "given_name", "familyName": "family_name", "groups": "group", "permissions": "permissions", "locale": "locale"}

// problems are what people are told of errors.
var problems = []struct {
	err error
	problem
}{
	{person.ErrNameKept, problem{field: "username", key: "console.problem.name_kept"}},
	{person.ErrUsernameTaken, problem{field: "username", key: "console.problem.taken"}},
	{person.ErrGroupTaken, problem{field: "group", key: "console.problem.group_taken"}},
	{person.ErrNoPerson, problem{field: "username", key: "console.problem.no_person"}},
	{person.ErrNoGroup, problem{field: "group", key: "console.problem.no_group"}},
	{enrol.ErrInvitationsOff, problem{key: "console.problem.invitations_off"}},
	{enrol.ErrNoReset, problem{key: "console.problem.no_mail"}},
	{stepup.ErrNoMethod, problem{key: "console.problem.gone"}},
	{stepup.ErrLastWay, problem{key: "console.problem.last_way"}},
	{registry.ErrExists, problem{field: "client_id", key: "console.problem.client_taken"}},
	{registry.ErrUnknown, problem{key: "console.problem.gone"}},
	{registry.ErrDeclared, problem{key: "console.problem.declared"}},
	{registry.ErrChanged, problem{key: "console.problem.changed"}},
	{manage.ErrGone, problem{key: "console.problem.gone"}},
	{errLastOwner, problem{key: "console.problem.last_owner"}},
}

// problemOf returns what a person is told of an error, or nil if it is not theirs.
func problemOf(err error) *problem {
	if err == nil {
		return nil
	}
	if p := new(problem); errors.As(err, &p) {
		return p
	}
	for i := range problems {
		if errors.Is(err, problems[i].err) {
			return &problems[i].problem
		}
	}
	if e := new(person.ValidationError); errors.As(err, &e) {
		return &problem{field: fieldOf[e.Field], key: "console.problem.value"}
	}
	if e := new(client.InvalidError); errors.As(err, &e) {
		return &problem{key: "console.problem.client", fill: []any{"reason", e.Error()}}
	}
	if e := new(proof.TooSoonError); errors.As(err, &e) {
		return &problem{key: "problem.wait", fill: []any{"time", e.Wait}}
	}
	if errors.As(err, new(*person.StateError)) {
		return &problem{key: "console.problem.state"}
	}
	if errors.As(err, new(*person.TooManyError)) {
		return &problem{key: "console.problem.too_many"}
	}
	return nil
}

// lines are the words of a field with one in each line, or with spaces or commas between.
func lines(s string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' || r == '\t' }), func(w string) bool { return w == "" })
}
