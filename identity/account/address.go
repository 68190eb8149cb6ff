package account

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// addressPath is the page for a postal address beside the one that stands on the page of the profile.
const addressPath = front.ProfilePath + "/address"

// otherAddresses lists those beside the main one, and leads to the page for one more. It is nil where there is none yet.
func otherAddresses(a *front.Visit, v *profilePage) []page.Part {
	if len(v.own.Addresses) == 0 {
		return nil
	}
	part := page.Part{ID: "posts", Title: page.Say("profile.addresses.others"), Links: []page.Action{{Label: "profile.addresses.add", URL: addressPath}}}
	for i, address := range v.own.Addresses {
		if i == front.MainAddress(v.own.Addresses) {
			continue
		}
		row := page.Row{Icon: "mail", Name: address.Line(), Actions: []page.Action{{Label: "profile.addresses.change", URL: addressPath + "?n=" + strconv.Itoa(i)}}}
		for _, do := range [][2]string{{"profile.make_primary", "primary"}, {"security.remove", "remove"}} {
			row.Actions = append(row.Actions, page.Action{Label: do[0], URL: addressPath, CSRF: a.Csrf, Fields: []page.Hidden{{Name: "do", Value: do[1]}, {Name: "was", Value: address.Key()}}})
		}
		part.Rows = append(part.Rows, row)
	}
	return []page.Part{part}
}

// showAddress serves GET /account/profile/address?n=…: an address beside the main one, or a new one.
func (s *Service) showAddress(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	self := addressPath
	if err != nil || n < 0 || n >= person.MaxEntries {
		n = -1
	} else {
		self += "?n=" + strconv.Itoa(n)
	}
	a, ok := s.front.Guard(w, r, self)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err == nil {
		a.Csrf, err = s.front.SecurityForm(w, r, a.Si, front.ProfilePath)
	}
	switch {
	case err != nil:
		s.front.Fail(w, r, err, front.ProfilePath)
	case n >= len(v.own.Addresses) || n >= 0 && n == front.MainAddress(v.own.Addresses):
		s.front.Redirect(w, r, front.ProfilePath)
	case n >= 0:
		address := v.own.Addresses[n]
		v.values = shownAs(person.Profile{Addresses: []person.Address{address}})
		s.addressPage(w, r, a, v, http.StatusOK, address.Key(), "")
	default:
		v.values = typed{}
		s.addressPage(w, r, a, v, http.StatusOK, "", "")
	}
}

// addressPage writes the form. was names the address that it is about, "" for a new one; problem is what is wrong with all of it.
func (s *Service) addressPage(w http.ResponseWriter, r *http.Request, a *front.Visit, v *profilePage, status int, was, problem string) {
	form := s.profileForm(r.Context(), a, v, "address", problem != "")
	form.Action, form.Quiet = addressPath, false
	form.Hidden = []page.Hidden{{Name: "do", Value: "save"}, {Name: "was", Value: was}}
	s.front.RenderAccount(w, r, a, status, page.Dashboard{Key: "address", Cancel: front.ProfilePath, Problem: problem, Parts: []page.Part{{Form: form}}})
}

// handleAddress serves POST /account/profile/address: an address beside the main one is added, changed, made the main one or removed.
func (s *Service) handleAddress(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.GuardPost(w, r, front.ProfilePath)
	if !ok {
		return
	}
	was, what := r.PostForm.Get("was"), ""
	var change func(p *person.Profile, i int)
	switch r.PostForm.Get("do") {
	case "save":
		address, ok := s.typedAddress(w, r, a, was)
		if !ok {
			return
		}
		what, change = "saved", func(p *person.Profile, i int) { p.Addresses[i] = address(p.Addresses[i]) }
	case "primary":
		what, change = "primary", func(p *person.Profile, at int) {
			for i := range p.Addresses {
				p.Addresses[i].Primary = i == at
			}
		}
	case "remove":
		what, change = "removed", func(p *person.Profile, i int) { p.Addresses = slices.Delete(p.Addresses, i, i+1) }
	default:
		s.pages.Error(w, r, http.StatusBadRequest, "error.bad_request", front.ProfilePath)
		return
	}
	s.changeAddress(w, r, a, change, was, what)
}

// typedAddress reads the form, and returns what makes an address of what was there. Otherwise it has written the answer and is not ok.
func (s *Service) typedAddress(w http.ResponseWriter, r *http.Request, a *front.Visit, was string) (func(person.Address) person.Address, bool) {
	v, err := s.readOwn(r, a)
	if err != nil {
		s.front.Fail(w, r, err, front.ProfilePath)
		return nil, false
	}
	v.values = typed{}
	v.values.read(r, "address", v.locked)
	written := func(old person.Address) person.Address {
		p := person.Profile{Addresses: []person.Address{old}}
		v.values.into(&p, "address", v.locked)
		return slices.Concat(p.Addresses, []person.Address{{Primary: old.Primary}})[0]
	}
	problem := ""
	v.problems = v.values.problems("address", a.MustHave, s.now())
	switch {
	case was == "" && len(v.own.Addresses) >= person.MaxEntries:
		problem = "problem.contact_many"
	case len(v.problems) == 0 && written(person.Address{}) == person.Address{}:
		problem = "problem.address_empty"
	}
	if problem == "" && len(v.problems) == 0 {
		return written, true
	}
	v.values.hide(v.problems)
	s.addressPage(w, r, a, v, http.StatusUnprocessableEntity, was, problem)
	return nil, false
}

// changeAddress changes the address that was names, a new one when it is "".
func (s *Service) changeAddress(w http.ResponseWriter, r *http.Request, a *front.Visit, change func(*person.Profile, int), was, what string) {
	_, err := s.person.UpdatePerson(r.Context(), a.Si.Session.PersonID, person.Edit{By: s.front.Actor(r, a.Si)}, func(tx storage.Tx, d *person.Details) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		p := &d.Profile
		main, i := front.MainAddress(p.Addresses), -1
		for at, a := range p.Addresses {
			if at != main && a.Key() == was {
				i = at
				break
			}
		}
		switch {
		case was == "" && what == "saved" && len(p.Addresses) < person.MaxEntries:
			i = len(p.Addresses)
			p.Addresses = append(p.Addresses, person.Address{Primary: i == 0})
		case i < 0: // another by now, or not beside the main one
			return person.ErrMismatch
		}
		if main = front.MainAddress(p.Addresses); what != "primary" { // where nobody has called one so, the one that is shown as it
			p.Addresses[main].Primary = true
		}
		change(p, i)
		return nil
	})
	switch {
	case errors.Is(err, person.ErrMismatch), errors.As(err, new(*person.ValidationError)):
		s.front.Redirect(w, r, front.ProfilePath)
	case err != nil:
		s.front.Fail(w, r, err, front.ProfilePath)
	default:
		s.front.Redirect(w, r, front.DoneURL(front.ProfilePath, what))
	}
}
