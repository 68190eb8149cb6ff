package account

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// addressPath is the page for a postal address other than the main one, which is on the profile page itself.
const addressPath = webflow.ProfilePath + "/address"

// mainAddress is the index of the address that the profile page shows, -1 if there is no address.
func mainAddress(list []person.Address) int {
	if len(list) == 0 {
		return -1
	}
	return max(0, slices.IndexFunc(list, func(a person.Address) bool { return a.Primary }))
}

// addressParts lists the addresses other than the main one and links to the page that adds one. It is nil while there
// is no main address.
func addressParts(a *webflow.Visit, v *profilePage) []web.Part {
	if len(v.own.Addresses) == 0 {
		return nil
	}
	part := web.Part{
		ID: "posts", Title: web.Say("profile.addresses.others"),
		Links: []web.Action{{Label: "profile.addresses.add", URL: addressPath}},
	}
	for i, address := range v.own.Addresses {
		if i == mainAddress(v.own.Addresses) {
			continue
		}
		change := web.Action{Label: "profile.addresses.change", URL: addressPath + "?n=" + strconv.Itoa(i)}
		row := web.Row{Icon: "mail", Name: address.Line(), Actions: []web.Action{change}}
		for _, do := range [][2]string{{"profile.make_primary", "primary"}, {"security.remove", "remove"}} {
			fields := []web.Hidden{{Name: "do", Value: do[1]}, {Name: "was", Value: address.Key()}}
			row.Actions = append(row.Actions, web.Action{Label: do[0], URL: addressPath, CSRF: a.CSRF, Fields: fields, Danger: do[1] == "remove"})
		}
		part.Rows = append(part.Rows, row)
	}
	return []web.Part{part}
}

// showAddress serves GET /account/profile/address?n=…: an address other than the main one, or an empty form for a new
// one.
func (s *Service) showAddress(q *webflow.Request) error {
	n, err := strconv.Atoi(q.URL.Query().Get("n"))
	self := addressPath
	if err != nil || n < 0 || n >= person.MaxEntries {
		n = -1
	} else {
		self += "?n=" + strconv.Itoa(n)
	}
	a, err := s.deps.Front.VisitOf(q, self)
	if err != nil {
		return err
	}
	q.Again = webflow.ProfilePath
	v, err := s.readProfile(q)
	if err != nil {
		return err
	}
	if a.CSRF, err = s.deps.Front.FormToken(q, webflow.SessionForm(webflow.ProfilePath, a.SignIn)); err != nil {
		return err
	}
	switch {
	case n >= len(v.own.Addresses) || n >= 0 && n == mainAddress(v.own.Addresses):
		return q.Redirect(webflow.ProfilePath)
	case n >= 0:
		address := v.own.Addresses[n]
		v.values = valuesOf(person.Profile{Addresses: []person.Address{address}})
		return s.renderAddress(a, v, http.StatusOK, address.Key(), "")
	}
	v.values = formValues{}
	return s.renderAddress(a, v, http.StatusOK, "", "")
}

// renderAddress writes the form. key names the address that it changes, "" for a new one; problem is what is wrong with
// the form as a whole.
func (s *Service) renderAddress(a *webflow.Visit, v *profilePage, status int, key, problem string) error {
	form := s.profileForm(a, v, "address", problem != "")
	form.Action, form.Quiet = addressPath, false
	form.Hidden = []web.Hidden{{Name: "do", Value: "save"}, {Name: "was", Value: key}}
	return s.render(a, status, web.Dashboard{Key: "address", Cancel: webflow.ProfilePath, Problem: problem, Parts: []web.Part{{Form: form}}})
}

// handleAddress serves POST /account/profile/address: an address other than the main one is added, changed, made the
// main one or removed.
func (s *Service) handleAddress(q *webflow.Request) error {
	a, err := s.deps.Front.VisitPost(q, webflow.ProfilePath)
	if err != nil {
		return err
	}
	key, do := q.PostForm.Get("was"), q.PostForm.Get("do")
	switch do {
	case "save":
		v, err := s.readProfile(q)
		if err != nil {
			return err
		}
		v.values = formValues{}
		v.values.read(q.PostForm, "address", v.locked)
		if problem := s.checkAddress(a, v, key); problem != "" || len(v.problems) > 0 {
			v.values.clear(v.problems)
			return s.renderAddress(a, v, http.StatusUnprocessableEntity, key, problem)
		}
		return s.changeAddress(a, key, "saved", func(p *person.Profile, i int) { p.Addresses[i] = v.applyTo(p.Addresses[i]) })
	case "primary":
		return s.changeAddress(a, key, "primary", func(p *person.Profile, at int) {
			for i := range p.Addresses {
				p.Addresses[i].Primary = i == at
			}
		})
	case "remove":
		return s.changeAddress(a, key, "removed", func(p *person.Profile, i int) { p.Addresses = slices.Delete(p.Addresses, i, i+1) })
	}
	return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.bad_request", Again: webflow.ProfilePath}
}

// applyTo returns an address as the form changes it.
func (v *profilePage) applyTo(old person.Address) person.Address {
	p := person.Profile{Addresses: []person.Address{old}}
	v.values.applyTo(&p, "address", v.locked)
	return slices.Concat(p.Addresses, []person.Address{{Primary: old.Primary}})[0]
}

// checkAddress checks the form of an address. It returns what is wrong with the form as a whole, or "", and notes the
// problems of fields.
func (s *Service) checkAddress(a *webflow.Visit, v *profilePage, key string) string {
	v.problems = v.values.problems("address", a.Settings, s.deps.Now())
	switch {
	case key == "" && len(v.own.Addresses) >= person.MaxEntries:
		return "problem.contact_many"
	case len(v.problems) == 0 && v.applyTo(person.Address{}) == person.Address{}:
		return "problem.address_empty"
	}
	return ""
}

// changeAddress changes the address that key names, or a new one if key is "" and the form was saved.
func (s *Service) changeAddress(a *webflow.Visit, key, done string, change func(*person.Profile, int)) error {
	_, err := s.update(a, func(_ storage.Tx, d *person.Details) error {
		p := &d.Profile
		main, i := mainAddress(p.Addresses), -1
		for at, a := range p.Addresses {
			if at != main && a.Key() == key {
				i = at
				break
			}
		}
		switch {
		case key == "" && done == "saved" && len(p.Addresses) < person.MaxEntries:
			i = len(p.Addresses)
			p.Addresses = append(p.Addresses, person.Address{Primary: i == 0})
		case i < 0: // changed meanwhile, or the main one
			return person.ErrMismatch
		}
		if main = mainAddress(p.Addresses); done != "primary" { // no address may be marked as the main one yet
			p.Addresses[main].Primary = true
		}
		change(p, i)
		return nil
	})
	switch {
	case errors.Is(err, person.ErrMismatch), errors.As(err, new(*person.ValidationError)):
		return a.Redirect(webflow.ProfilePath)
	case err != nil:
		return err
	}
	return a.Redirect(doneURL(webflow.ProfilePath, done))
}
