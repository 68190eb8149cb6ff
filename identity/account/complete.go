package account

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// completion is somebody who has signed in, and what is missing of them.
type completion struct {
	id    string
	flow  front.FlowRecord
	a     *front.Visit
	own   person.Profile
	lacks missingFields
	typed map[string]string
	// custom are the custom fields as they were typed.
	custom   []person.CustomAttribute
	problems map[string]string
}

// missingFields is what a person is asked for.
type missingFields struct {
	required []string   // names of fields
	oneOf    [][]string // of each of these one is enough
	custom   person.CustomFields
}

// fieldsOfAttribute are the fields by which a person has an attribute that the configuration demands.
var fieldsOfAttribute = map[string][]string{
	config.AttributeName: {"given_name", "family_name"}, config.AttributePhone: {"phone"}, config.AttributeBirthDate: {"date_of_birth"}, config.AttributeEmail: {"email"},
}

// completeFields are the fields of the page in their order.
var completeFields = []string{"given_name", "family_name", "date_of_birth", "email", "phone"}

func (l *missingFields) none() bool { return len(l.required)+len(l.oneOf)+len(l.custom) == 0 }

// asks tells whether a field is asked for, and whether it must be filled in.
func (l *missingFields) asks(name string) (asked, required bool) {
	required = slices.Contains(l.required, name)
	return required || slices.ContainsFunc(l.oneOf, func(g []string) bool { return slices.Contains(g, name) }), required
}

// add asks for one of these fields, of which only those count that can be asked for.
func (l *missingFields) add(can func(string) bool, names ...string) {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !can(n) })
	switch len(names) {
	case 0:
	case 1:
		if !slices.Contains(l.required, names[0]) {
			l.required = append(l.required, names[0])
		}
	default:
		l.oneOf = append(l.oneOf, names)
	}
}

// lackingOf is what is missing of a profile. contacts tells whether this sign-in is good enough to say how the person is reached.
func (s *Service) lackingOf(u *config.Units, p *person.Profile, fields person.CustomFields, contacts bool) (l missingFields) {
	can := func(name string) bool {
		switch name {
		case "email": // one that is there and cannot be confirmed would be asked for at each sign-in
			return contacts && (s.front.VerifiesEmail(u) || !p.HasEmail(false))
		case "phone":
			return contacts
		}
		return true
	}
	must := u.Attributes.PersonCreationMandatoryFields
	if must.FirstNameRequired && p.Name.FirstName == "" {
		l.add(can, "given_name")
	}
	if must.LastNameRequired && p.Name.LastName == "" {
		l.add(can, "family_name")
	}
	for _, rule := range p.Missing(u) {
		var names []string
		for _, attribute := range rule {
			names = append(names, fieldsOfAttribute[attribute]...)
		}
		if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(l.required, n) }) {
			l.add(can, names...)
		}
	}
	if must.MobileNumberRequired && len(p.PhoneNumbers) == 0 {
		l.add(can, "phone")
	}
	// One code at a time: the number comes after the address.
	if slices.Contains(l.required, "email") && s.front.VerifiesEmail(u) && s.person.VerifiesPhone(u) {
		l.required = slices.DeleteFunc(l.required, func(n string) bool { return n == "phone" })
	}
	l.custom = fields.Lacking(p.CustomAttributes)
	return l
}

// readCompleting reads whom a request is about and what is missing. Otherwise it has written the answer, or led on, and is not ok.
func (s *Service) readCompleting(w http.ResponseWriter, r *http.Request) (x *completion, ok bool) {
	id, f, ok := s.front.Flow(w, r)
	if !ok {
		return nil, false
	}
	u, err := s.person.Settings(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, front.CompleteURL(id))
		return nil, false
	}
	si, err := s.session.Read(r)
	if err != nil {
		s.front.Fail(w, r, err, front.CompleteURL(id))
		return nil, false
	}
	// A sign-in that may not see the account pages changes nothing that stands there either.
	if r.URL.Query().Get("later") != "" || si == nil || !si.Session.Again || !front.AsksMore(u) || si.Session.Level < front.DashboardLevel(u) {
		s.front.Continue(w, r, id, f)
		return nil, false
	}
	x = &completion{id: id, flow: f, a: &front.Visit{Si: si, U: u, Level: front.DashboardLevel(u), Path: front.CompleteURL(id)}, typed: map[string]string{}, problems: map[string]string{}}
	if err := s.readLacking(r, x); err != nil {
		s.front.Fail(w, r, err, front.CompleteURL(id))
		return nil, false
	}
	if x.lacks.none() {
		s.front.Continue(w, r, id, f)
		return nil, false
	}
	return x, true
}

func (s *Service) readLacking(r *http.Request, x *completion) error {
	st, err := s.stepup.StandingOf(r.Context(), x.a.Si)
	if err != nil {
		return err
	}
	level := s.contactLevel(st)
	return s.store.View(r.Context(), func(tx storage.Tx) error {
		d, err := s.person.Details(tx, x.a.Si.Session.PersonID)
		if err != nil {
			return err
		}
		fields, err := person.CustomFieldsFor(tx, x.a.U, d.ID)
		x.own = d.Profile
		x.lacks = s.lackingOf(x.a.U, &x.own, fields, x.a.Si.Session.Level >= level)
		if asked, _ := x.lacks.asks("email"); asked {
			x.typed["email"] = x.own.PrimaryEmail().Value
			x.a.Level = level
		}
		if asked, _ := x.lacks.asks("phone"); asked {
			x.a.Level = level
		}
		return err
	})
}

// showComplete serves GET /sign-in/complete?flow=…: somebody who has signed in again is asked for what is missing, once each time, and may go on
// without. later=1 does.
func (s *Service) showComplete(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.readCompleting(w, r); ok {
		s.completePage(w, r, x, http.StatusOK, page.Form{})
	}
}

// form binds the form to the sign-in and the session.
func (x *completion) form() string { return "complete:" + x.id + ":" + x.a.Si.ID }

func (s *Service) completePage(w http.ResponseWriter, r *http.Request, x *completion, status int, in page.Form) {
	in.Key, in.Action = "complete", front.CompleteURL(x.id)
	in.Fields = page.Fields(in.Problem != "", x.inputs()...)
	in.Links = []page.FormLink{{Label: "complete.later", URL: front.CompleteURL(x.id) + "&later=1"}}
	s.front.FormPage(w, r, front.Detour{ID: x.id, Flow: x.flow, U: x.a.U}, x.form(), status, in)
}

// inputs are the fields of the page.
func (x *completion) inputs() (out []page.Field) {
	for _, name := range completeFields {
		asked, required := x.lacks.asks(name)
		if !asked {
			continue
		}
		f := page.Field{Name: name, Label: "sign_up." + name, Value: x.typed[name], Required: required, MaxLength: person.MaxLine, Problem: x.problems[name]}
		if !required && f.Problem == "" { // which says the same
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
	return append(out, front.CustomInputs(x.lacks.custom, x.custom, x.problems)...)
}

// read reads the form and says what is wrong with each field.
func (x *completion) read(r *http.Request, now time.Time) {
	for _, name := range completeFields {
		asked, required := x.lacks.asks(name)
		if !asked {
			continue
		}
		v := strings.TrimSpace(r.PostForm.Get(name))
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
	for _, group := range x.lacks.oneOf {
		if !slices.ContainsFunc(group, func(n string) bool { return x.typed[n] != "" }) && x.problems[group[0]] == "" {
			x.problems[group[0]] = "problem.one_of"
		}
	}
	x.custom = front.ReadCustom(x.lacks.custom, r.PostForm, x.problems)
}

// contact is what was typed into one of the fields by which a person is reached. ok: something was
func (x *completion) contact(kind person.ContactKind) (c person.Contact, ok bool) {
	c = person.Contact{Kind: kind, Value: x.typed[string(kind)]}
	if number, isNumber := person.ParsePhone(c.Value); isNumber && kind == person.ContactPhone {
		c.Value = number
	}
	return c, c.Value != ""
}

// handleComplete serves POST /sign-in/complete?flow=…: what was missing is kept; an address or number is asked for its code first, where those are
// verified.
func (s *Service) handleComplete(w http.ResponseWriter, r *http.Request) {
	x, ok := s.readCompleting(w, r)
	if !ok || !s.front.CheckPost(w, r, x.form(), front.CompleteURL(x.id)) {
		return
	}
	x.read(r, s.now())
	var verify []person.Contact
	for _, kind := range []person.ContactKind{person.ContactEmail, person.ContactPhone} {
		c, ok := x.contact(kind)
		if !ok || x.problems[string(kind)] != "" {
			continue
		}
		verifies := s.verifies(kind, x.a.U)
		if problem := c.Problem(x.a.U, &x.own, verifies); problem != "" {
			x.problems[string(kind)] = problem
		} else if verifies {
			verify = append(verify, c)
		}
	}
	if len(x.problems) > 0 {
		s.completePage(w, r, x, http.StatusUnprocessableEntity, page.Form{})
		return
	}
	_, err := s.person.UpdatePerson(r.Context(), x.a.Si.Session.PersonID, person.Edit{By: s.front.Actor(r, x.a.Si)}, func(tx storage.Tx, d *person.Details) error {
		x.into(&d.Profile, verify)
		return s.still(tx, x.a)
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Continue(w, r, x.id, x.flow)
	case errors.As(err, new(*person.ValidationError)):
		s.completePage(w, r, x, http.StatusUnprocessableEntity, page.Form{Problem: "problem.profile"})
	case err != nil:
		s.front.Fail(w, r, err, front.CompleteURL(x.id))
	case len(verify) > 0:
		s.confirmCompleting(w, r, x, verify[0])
	default:
		s.front.Redirect(w, r, front.CompleteURL(x.id)) // there may be more by now
	}
}

// into writes what was typed into the profile, as far as it is missing still: nobody changes by it what is there. What is verified waits for its code.
func (x *completion) into(p *person.Profile, verify []person.Contact) {
	for name, to := range map[string]*string{"given_name": &p.Name.FirstName, "family_name": &p.Name.LastName, "date_of_birth": &p.DateOfBirth} {
		if *to == "" {
			*to = x.typed[name]
		}
	}
	there := map[person.ContactKind]bool{person.ContactEmail: len(p.EmailAddresses) > 0, person.ContactPhone: len(p.PhoneNumbers) > 0}
	for _, kind := range []person.ContactKind{person.ContactEmail, person.ContactPhone} {
		if c, ok := x.contact(kind); ok && !there[kind] && !slices.Contains(verify, c) {
			c.Put(p, false)
		}
	}
	p.SetCustom(slices.DeleteFunc(slices.Clone(x.custom), func(c person.CustomAttribute) bool {
		_, there := person.CustomValue(p.CustomAttributes, c.Name)
		return there
	}))
}

// confirmCompleting sends a code to a contact and leads to the page that takes it, and from there back.
func (s *Service) confirmCompleting(w http.ResponseWriter, r *http.Request, x *completion, c person.Contact) {
	x.a.Flow = x.id
	wait, err := s.sendToContact(r, x.a, c)
	if err == nil && wait > 0 {
		if sent, ok, err := s.newContact(r, x.a); err == nil && ok && sent == c { // the code is there, and the page that takes it was left
			wait = 0
		}
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Continue(w, r, x.id, x.flow)
	case err != nil:
		s.front.Fail(w, r, err, front.CompleteURL(x.id))
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.sent", wait)
		s.completePage(w, r, x, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, confirmPath)
	}
}
