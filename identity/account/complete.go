package account

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// completion is a sign-in that pauses so that the person can fill in what their profile lacks.
type completion struct {
	*webflow.Visit

	id      string
	flow    webflow.FlowRecord
	own     person.Profile
	missing missingFields
	typed   map[string]string
	// custom has the typed values of the custom fields.
	custom   []person.CustomAttribute
	problems map[string]string
}

// readCompletion reads the sign-in of a request and what is missing. If nothing is asked, it continues the sign-in and
// returns webflow.ErrAnswered.
func (s *Service) readCompletion(q *webflow.Request) (*completion, error) {
	id, flow, err := s.deps.Front.FlowIn(q)
	if err != nil {
		return nil, err
	}
	q.Again = webflow.CompleteURL(id)
	x := &completion{
		Visit: &webflow.Visit{Request: q, Level: webflow.DashboardLevel(q.Settings), Path: q.Again},
		id:    id, flow: flow, typed: map[string]string{}, problems: map[string]string{},
	}
	asks := q.URL.Query().Get("later") == "" && q.SignIn != nil && q.SignIn.Session.Again && webflow.AsksMore(q.Settings)
	if asks {
		if asks, err = s.opens(x); err != nil {
			return nil, err
		}
	}
	if asks {
		if err := s.deps.Store.View(q.Context(), func(tx storage.Tx) error { return s.readMissing(tx, x) }); err != nil {
			return nil, err
		}
	}
	if !asks || x.missing.isEmpty() {
		return nil, cmp.Or(s.deps.Front.Return(q, id, flow), webflow.ErrAnswered)
	}
	return x, nil
}

// opens reports whether the sign-in opens the account pages: any other must neither see nor change what is there. A
// second step that what asked for the sign-in needs anyway comes first, and leads back.
func (s *Service) opens(x *completion) (bool, error) {
	d := &x.flow.Demand
	_, err := s.deps.Front.Authenticate(x.Request, authn.Demand{
		MaxAge: -1, Level: d.Level, SecondFactor: d.SecondFactor, Client: d.Client, Return: x.Path, Cancel: d.Cancel,
	})
	if errors.As(err, new(*authn.Refusal)) || errors.As(err, new(*webflow.Answer)) {
		return false, nil // the page that asked says so
	}
	if err != nil {
		return false, err
	}
	return s.deps.Front.Opens(x.Request, x.Level)
}

// readMissing reads the profile and what it lacks.
func (s *Service) readMissing(tx storage.Tx, x *completion) error {
	st, err := s.deps.StepUp.StandingIn(tx, x.SignIn, x.Settings)
	if err != nil {
		return err
	}
	d, err := s.deps.Person.Details(tx, x.SignIn.Session.PersonID)
	if err != nil {
		return err
	}
	fields, err := person.CustomFieldsFor(tx, x.Settings, d.ID)
	if err != nil {
		return err
	}
	x.Level = webflow.DashboardLevel(x.Settings)
	level := s.contactLevel(st)
	x.own = d.Profile
	x.missing = s.findMissing(x.Settings, &x.own, fields, x.SignIn.Session.Level >= level)
	if shown, _ := x.missing.asks("email"); shown {
		x.typed["email"] = x.own.PrimaryEmail().Value
		x.Level = level
	}
	if shown, _ := x.missing.asks("phone"); shown {
		x.Level = level
	}
	return nil
}

// showComplete serves GET /sign-in/complete?flow=…: a person who has signed in before is asked, once per sign-in, for
// what their profile lacks. The parameter later=1 skips that.
func (s *Service) showComplete(q *webflow.Request) error {
	x, err := s.readCompletion(q)
	if err != nil {
		return err
	}
	return s.renderCompletion(x, http.StatusOK, web.Form{})
}

// form binds the form to the sign-in and the session.
func (x *completion) form() string { return webflow.SessionForm("complete:"+x.id, x.SignIn) }

func (s *Service) renderCompletion(x *completion, status int, in web.Form) error {
	in.Key, in.Action = "complete", webflow.CompleteURL(x.id)
	in.Fields = web.Fields(in.Problem != "", x.inputs()...)
	in.Links = []web.FormLink{{Label: "complete.later", URL: webflow.CompleteURL(x.id) + "&later=1"}}
	return s.deps.Front.RenderForm(x.Request, webflow.Detour{ID: x.id, Flow: x.flow, U: x.Settings}, x.form(), status, in)
}

// inputs are the fields of the page.
func (x *completion) inputs() (out []web.Field) {
	for _, name := range completeFields {
		shown, required := x.missing.asks(name)
		if !shown {
			continue
		}
		f := web.Field{
			Name: name, Label: "sign_up." + name, Value: x.typed[name], Required: required, MaxLength: person.MaxLine,
			Problem: x.problems[name],
		}
		if !required && f.Problem == "" { // a problem says the same
			f.Hint = "complete.one_of"
		}
		switch name {
		case "given_name":
			f.Autocomplete = "given-name"
		case "family_name":
			f.Autocomplete = "family-name"
		case "date_of_birth":
			f.Type, f.Label, f.Autocomplete, f.MaxLength = "date", "profile.date_of_birth", "bday", 0
		case "email":
			f.Type, f.Autocomplete = "email", "email"
		case "phone":
			f.Type, f.Autocomplete = "tel", "tel"
			if f.Problem != "problem.phone" {
				f.Hint = "sign_up.phone.hint"
			}
		}
		out = append(out, f)
	}
	return append(out, webflow.CustomInputs(x.missing.custom, x.custom, x.problems)...)
}

// read reads the form and notes the problems of its fields.
func (x *completion) read(now time.Time) {
	for _, name := range completeFields {
		shown, required := x.missing.asks(name)
		if !shown {
			continue
		}
		v := strings.TrimSpace(x.PostForm.Get(name))
		switch {
		case v == "" && required:
			x.problems[name] = "problem.required"
		case v == "":
		case !person.IsText(v, person.MaxLine):
			v, x.problems[name] = "", "problem.text" // not shown again
		case name == "date_of_birth" && !isBirthday(v, now):
			x.problems[name] = "problem.date"
		}
		x.typed[name] = v
	}
	for _, group := range x.missing.oneOf {
		if !slices.ContainsFunc(group, func(n string) bool { return x.typed[n] != "" }) && x.problems[group[0]] == "" {
			x.problems[group[0]] = "problem.one_of"
		}
	}
	x.custom = webflow.ReadCustom(x.missing.custom, x.PostForm, x.problems)
}

// contact is the address or number that was typed. ok is false if the field is empty.
func (x *completion) contact(kind person.ContactKind) (c person.Contact, ok bool) {
	c = person.Contact{Kind: kind, Value: x.typed[string(kind)]}
	if number, isNumber := person.ParsePhone(c.Value); isNumber && kind == person.ContactPhone {
		c.Value = number
	}
	return c, c.Value != ""
}

// contactKinds are the kinds in the order in which codes are asked for.
var contactKinds = []person.ContactKind{person.ContactEmail, person.ContactPhone}

// handleComplete serves POST /sign-in/complete?flow=…: what was missing is stored. An address or number that has to be
// verified is stored only with its code, which the next page asks for.
func (s *Service) handleComplete(q *webflow.Request) error {
	x, err := s.readCompletion(q)
	if err != nil {
		return err
	}
	if err := s.deps.Front.CheckForm(q, x.form(), webflow.CompleteURL(x.id)); err != nil {
		return err
	}
	x.read(s.deps.Now())
	var verify []person.Contact
	for _, kind := range contactKinds {
		c, ok := x.contact(kind)
		if !ok || x.problems[string(kind)] != "" {
			continue
		}
		verifies := s.verifies(kind, x.Settings)
		if problem := c.Problem(x.Settings, &x.own, verifies); problem != "" {
			x.problems[string(kind)] = problem
		} else if verifies {
			verify = append(verify, c)
		}
	}
	if len(x.problems) > 0 {
		return s.renderCompletion(x, http.StatusUnprocessableEntity, web.Form{})
	}
	_, err = s.update(x.Visit, func(_ storage.Tx, d *person.Details) error {
		x.fill(&d.Profile, verify)
		return nil
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return s.deps.Front.Return(q, x.id, x.flow)
	case errors.As(err, new(*person.ValidationError)):
		return s.renderCompletion(x, http.StatusUnprocessableEntity, web.Form{Problem: "problem.profile"})
	case err != nil:
		return err
	case len(verify) > 0:
		return s.confirmCompletion(x, verify[0])
	}
	return q.Redirect(webflow.CompleteURL(x.id)) // more may be missing by now
}

// fill writes what was typed into the profile where it is still empty: this page overwrites nothing. The contacts in
// verify wait for a code.
func (x *completion) fill(p *person.Profile, verify []person.Contact) {
	for name, to := range map[string]*string{
		"given_name": &p.Name.FirstName, "family_name": &p.Name.LastName,
		"date_of_birth": &p.DateOfBirth,
	} {
		if *to == "" {
			*to = x.typed[name]
		}
	}
	there := map[person.ContactKind]bool{person.ContactEmail: len(p.EmailAddresses) > 0, person.ContactPhone: len(p.PhoneNumbers) > 0}
	for _, kind := range contactKinds {
		if c, ok := x.contact(kind); ok && !there[kind] && !slices.Contains(verify, c) {
			c.Put(p, false)
		}
	}
	p.SetCustom(slices.DeleteFunc(slices.Clone(x.custom), func(c person.CustomAttribute) bool {
		_, there := person.CustomValue(p.CustomAttributes, c.Name)
		return there
	}))
}

// confirmCompletion sends a code to a contact and leads to the page that takes it, which leads back.
func (s *Service) confirmCompletion(x *completion, c person.Contact) error {
	wait, sent, err := s.sendCode(x.Visit, c, x.id)
	switch {
	case errors.Is(err, person.ErrMismatch):
		return s.deps.Front.Return(x.Request, x.id, x.flow)
	case err != nil:
		return err
	case wait > 0 && !sent:
		in := web.Form{}
		webflow.Waits(x.W, &in, "problem.sent", wait)
		return s.renderCompletion(x, http.StatusTooManyRequests, in)
	}
	return x.Redirect(confirmPath)
}
