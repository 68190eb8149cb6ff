package identity

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// completing is somebody who has signed in, and what is missing of them.
type completing struct {
	id    string
	flow  flowRecord
	a     *onAccount
	own   Profile
	lacks lacking
	typed map[string]string
	// custom are the custom fields as they were typed.
	custom   []CustomAttribute
	problems map[string]string
}

// lacking is what a person is asked for.
type lacking struct {
	required []string   // names of fields
	oneOf    [][]string // of each of these one is enough
	custom   customFields
}

// fieldsOfAttribute are the fields by which a person has an attribute that the configuration demands.
var fieldsOfAttribute = map[string][]string{
	config.AttributeName: {"given_name", "family_name"}, config.AttributePhone: {"phone"}, config.AttributeBirthDate: {"date_of_birth"}, config.AttributeEmail: {"email"},
}

// completeFields are the fields of the page in their order.
var completeFields = []string{"given_name", "family_name", "date_of_birth", "email", "phone"}

func (l *lacking) none() bool { return len(l.required)+len(l.oneOf)+len(l.custom) == 0 }

// asks tells whether a field is asked for, and whether it must be filled in.
func (l *lacking) asks(name string) (asked, required bool) {
	required = slices.Contains(l.required, name)
	return required || slices.ContainsFunc(l.oneOf, func(g []string) bool { return slices.Contains(g, name) }), required
}

// add asks for one of these fields, of which only those count that can be asked for.
func (l *lacking) add(can func(string) bool, names ...string) {
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
func (s *Service) lackingOf(u *config.Units, p *Profile, fields customFields, contacts bool) (l lacking) {
	can := func(name string) bool {
		switch name {
		case "email": // one that is there and cannot be confirmed would be asked for at each sign-in
			return contacts && (s.verifiesEmail(u) || !p.hasEmail(false))
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
	for _, rule := range p.missing(u) {
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
	if slices.Contains(l.required, "email") && s.verifiesEmail(u) && s.verifiesPhone(u) {
		l.required = slices.DeleteFunc(l.required, func(n string) bool { return n == "phone" })
	}
	l.custom = fields.lacking(p.CustomAttributes)
	return l
}

// readCompleting reads whom a request is about and what is missing. Otherwise it has written the answer, or led on, and is not ok.
func (s *Service) readCompleting(w http.ResponseWriter, r *http.Request) (x *completing, ok bool) {
	id, f, ok := s.flow(w, r)
	if !ok {
		return nil, false
	}
	u, err := s.configured(r.Context())
	if err != nil {
		s.fail(w, r, err, completeURL(id))
		return nil, false
	}
	si, err := s.current(r)
	if err != nil {
		s.fail(w, r, err, completeURL(id))
		return nil, false
	}
	// A sign-in that may not see the account pages changes nothing that stands there either.
	if r.URL.Query().Get("later") != "" || si == nil || !si.session.Again || !asksMore(u) || si.session.Level < dashboardLevel(u) {
		s.leadOn(w, r, id, f)
		return nil, false
	}
	x = &completing{id: id, flow: f, a: &onAccount{si: si, u: u, level: dashboardLevel(u), path: completeURL(id)}, typed: map[string]string{}, problems: map[string]string{}}
	if err := s.readLacking(r, x); err != nil {
		s.fail(w, r, err, completeURL(id))
		return nil, false
	}
	if x.lacks.none() {
		s.leadOn(w, r, id, f)
		return nil, false
	}
	return x, true
}

func (s *Service) readLacking(r *http.Request, x *completing) error {
	st, err := s.standingOf(r.Context(), x.a.si)
	if err != nil {
		return err
	}
	level := s.contactLevel(st)
	return s.Store.View(r.Context(), func(tx storage.Tx) error {
		d, err := s.Details(tx, x.a.si.session.PersonID)
		if err != nil {
			return err
		}
		fields, err := customFieldsFor(tx, x.a.u, d.ID)
		x.own = d.Profile
		x.lacks = s.lackingOf(x.a.u, &x.own, fields, x.a.si.session.Level >= level)
		if asked, _ := x.lacks.asks("email"); asked {
			x.typed["email"] = x.own.primaryEmail().Value
			x.a.level = level
		}
		if asked, _ := x.lacks.asks("phone"); asked {
			x.a.level = level
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
func (x *completing) form() string { return "complete:" + x.id + ":" + x.a.si.id }

func (s *Service) completePage(w http.ResponseWriter, r *http.Request, x *completing, status int, in page.Form) {
	in.Key, in.Action = "complete", completeURL(x.id)
	in.Fields = page.Fields(in.Problem != "", x.inputs()...)
	in.Links = []page.FormLink{{Label: "complete.later", URL: completeURL(x.id) + "&later=1"}}
	s.formPage(w, r, aside{id: x.id, flow: x.flow, u: x.a.u}, x.form(), status, in)
}

// inputs are the fields of the page.
func (x *completing) inputs() (out []page.Field) {
	for _, name := range completeFields {
		asked, required := x.lacks.asks(name)
		if !asked {
			continue
		}
		f := page.Field{Name: name, Label: "sign_up." + name, Value: x.typed[name], Required: required, MaxLength: maxLine, Problem: x.problems[name]}
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
	return append(out, x.lacks.custom.inputs(x.custom, x.problems)...)
}

// read reads the form and says what is wrong with each field.
func (x *completing) read(r *http.Request, now time.Time) {
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
		case !isText(v, maxLine):
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
	x.custom = x.lacks.custom.read(r, x.problems)
}

// contact is what was typed into one of the fields by which a person is reached. ok: something was
func (x *completing) contact(kind contactKind) (c contact, ok bool) {
	c = contact{kind, x.typed[string(kind)]}
	if number, isNumber := parsePhone(c.Value); isNumber && kind == contactPhone {
		c.Value = number
	}
	return c, c.Value != ""
}

// handleComplete serves POST /sign-in/complete?flow=…: what was missing is kept; an address or number is asked for its code first, where those are
// verified.
func (s *Service) handleComplete(w http.ResponseWriter, r *http.Request) {
	x, ok := s.readCompleting(w, r)
	if !ok || !s.checkForm(w, r, x.form(), completeURL(x.id)) {
		return
	}
	x.read(r, s.Now())
	var verify []contact
	for _, kind := range []contactKind{contactEmail, contactPhone} {
		c, ok := x.contact(kind)
		if !ok || x.problems[string(kind)] != "" {
			continue
		}
		verifies := s.verifies(kind, x.a.u)
		if problem := c.problem(x.a.u, &x.own, verifies); problem != "" {
			x.problems[string(kind)] = problem
		} else if verifies {
			verify = append(verify, c)
		}
	}
	if len(x.problems) > 0 {
		s.completePage(w, r, x, http.StatusUnprocessableEntity, page.Form{})
		return
	}
	_, err := s.UpdatePerson(r.Context(), x.a.si.session.PersonID, Edit{By: s.actor(r, x.a.si)}, func(tx storage.Tx, d *Details) error {
		x.into(&d.Profile, verify)
		return s.still(tx, x.a)
	})
	switch {
	case errors.Is(err, errMismatch):
		s.leadOn(w, r, x.id, x.flow)
	case errors.As(err, new(*ValidationError)):
		s.completePage(w, r, x, http.StatusUnprocessableEntity, page.Form{Problem: "problem.profile"})
	case err != nil:
		s.fail(w, r, err, completeURL(x.id))
	case len(verify) > 0:
		s.confirmCompleting(w, r, x, verify[0])
	default:
		s.redirect(w, r, completeURL(x.id)) // there may be more by now
	}
}

// into writes what was typed into the profile, as far as it is missing still: nobody changes by it what is there. What is verified waits for its code.
func (x *completing) into(p *Profile, verify []contact) {
	for name, to := range map[string]*string{"given_name": &p.Name.FirstName, "family_name": &p.Name.LastName, "date_of_birth": &p.DateOfBirth} {
		if *to == "" {
			*to = x.typed[name]
		}
	}
	there := map[contactKind]bool{contactEmail: len(p.EmailAddresses) > 0, contactPhone: len(p.PhoneNumbers) > 0}
	for _, kind := range []contactKind{contactEmail, contactPhone} {
		if c, ok := x.contact(kind); ok && !there[kind] && !slices.Contains(verify, c) {
			c.put(p, false)
		}
	}
	p.setCustom(slices.DeleteFunc(slices.Clone(x.custom), func(c CustomAttribute) bool {
		_, there := customValue(p.CustomAttributes, c.Name)
		return there
	}))
}

// confirmCompleting sends a code to a contact and leads to the page that takes it, and from there back.
func (s *Service) confirmCompleting(w http.ResponseWriter, r *http.Request, x *completing, c contact) {
	x.a.flow = x.id
	wait, err := s.sendToContact(r, x.a, c)
	if err == nil && wait > 0 {
		if sent, ok, err := s.newContact(r, x.a); err == nil && ok && sent == c { // the code is there, and the page that takes it was left
			wait = 0
		}
	}
	switch {
	case errors.Is(err, errMismatch):
		s.leadOn(w, r, x.id, x.flow)
	case err != nil:
		s.fail(w, r, err, completeURL(x.id))
	case wait > 0:
		in := page.Form{}
		waits(w, &in, "problem.sent", wait)
		s.completePage(w, r, x, http.StatusTooManyRequests, in)
	default:
		s.redirect(w, r, confirmPath)
	}
}
