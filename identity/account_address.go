package identity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// addressPath is the page for a postal address beside the one that stands on the page of the profile.
const addressPath = profilePath + "/address"

// key names an address in a form: when it is another by now, the form is about none.
func (a Address) key() string {
	return base64.RawURLEncoding.EncodeToString([]byte(secret.Hash(fmt.Sprintf("%#v", a))))
}

// line is the address in one line.
func (a Address) line() string { return strings.ReplaceAll(a.Formatted(), "\n", ", ") }

// mainAddress is where the address stands that the page of the profile shows, -1 where there is none.
func mainAddress(list []Address) int {
	if len(list) == 0 {
		return -1
	}
	return max(0, slices.IndexFunc(list, func(a Address) bool { return a.Primary }))
}

// otherAddresses lists those beside the main one, and leads to the page for one more. It is nil where there is none yet.
func otherAddresses(a *onAccount, v *profilePage) []page.Part {
	if len(v.own.Addresses) == 0 {
		return nil
	}
	part := page.Part{ID: "posts", Title: page.Say("profile.addresses.others"), Links: []page.Action{{Label: "profile.addresses.add", URL: addressPath}}}
	for i, address := range v.own.Addresses {
		if i == mainAddress(v.own.Addresses) {
			continue
		}
		row := page.Row{Icon: "mail", Name: address.line(), Actions: []page.Action{{Label: "profile.addresses.change", URL: addressPath + "?n=" + strconv.Itoa(i)}}}
		for _, do := range [][2]string{{"profile.make_primary", "primary"}, {"security.remove", "remove"}} {
			row.Actions = append(row.Actions, page.Action{Label: do[0], URL: addressPath, CSRF: a.csrf, Fields: []page.Hidden{{Name: "do", Value: do[1]}, {Name: "was", Value: address.key()}}})
		}
		part.Rows = append(part.Rows, row)
	}
	return []page.Part{part}
}

// showAddress serves GET /account/profile/address?n=…: an address beside the main one, or a new one.
func (s *Service) showAddress(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	self := addressPath
	if err != nil || n < 0 || n >= maxEntries {
		n = -1
	} else {
		self += "?n=" + strconv.Itoa(n)
	}
	a, ok := s.guard(w, r, self)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err == nil {
		a.csrf, err = s.securityForm(w, r, a.si, profilePath)
	}
	switch {
	case err != nil:
		s.fail(w, r, err, profilePath)
	case n >= len(v.own.Addresses) || n >= 0 && n == mainAddress(v.own.Addresses):
		s.redirect(w, r, profilePath)
	case n >= 0:
		address := v.own.Addresses[n]
		v.values = shownAs(Profile{Addresses: []Address{address}})
		s.addressPage(w, r, a, v, http.StatusOK, address.key(), "")
	default:
		v.values = typed{}
		s.addressPage(w, r, a, v, http.StatusOK, "", "")
	}
}

// addressPage writes the form. was names the address that it is about, "" for a new one; problem is what is wrong with all of it.
func (s *Service) addressPage(w http.ResponseWriter, r *http.Request, a *onAccount, v *profilePage, status int, was, problem string) {
	form := s.profileForm(r.Context(), a, v, "address", problem != "")
	form.Action, form.Quiet = addressPath, false
	form.Hidden = []page.Hidden{{Name: "do", Value: "save"}, {Name: "was", Value: was}}
	s.accountPage(w, r, a, status, page.Dashboard{Key: "address", Cancel: profilePath, Problem: problem, Parts: []page.Part{{Form: form}}})
}

// handleAddress serves POST /account/profile/address: an address beside the main one is added, changed, made the main one or removed.
func (s *Service) handleAddress(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guardPost(w, r, profilePath)
	if !ok {
		return
	}
	was, what := r.PostForm.Get("was"), ""
	var change func(p *Profile, i int)
	switch r.PostForm.Get("do") {
	case "save":
		address, ok := s.typedAddress(w, r, a, was)
		if !ok {
			return
		}
		what, change = "saved", func(p *Profile, i int) { p.Addresses[i] = address(p.Addresses[i]) }
	case "primary":
		what, change = "primary", func(p *Profile, at int) {
			for i := range p.Addresses {
				p.Addresses[i].Primary = i == at
			}
		}
	case "remove":
		what, change = "removed", func(p *Profile, i int) { p.Addresses = slices.Delete(p.Addresses, i, i+1) }
	default:
		s.Pages.Error(w, r, http.StatusBadRequest, "error.bad_request", profilePath)
		return
	}
	s.changeAddress(w, r, a, change, was, what)
}

// typedAddress reads the form, and returns what makes an address of what was there. Otherwise it has written the answer and is not ok.
func (s *Service) typedAddress(w http.ResponseWriter, r *http.Request, a *onAccount, was string) (func(Address) Address, bool) {
	v, err := s.readOwn(r, a)
	if err != nil {
		s.fail(w, r, err, profilePath)
		return nil, false
	}
	v.values = typed{}
	v.values.read(r, "address", v.locked)
	written := func(old Address) Address {
		p := Profile{Addresses: []Address{old}}
		v.values.into(&p, "address", v.locked)
		return slices.Concat(p.Addresses, []Address{{Primary: old.Primary}})[0]
	}
	problem := ""
	v.problems = v.values.problems("address", a.mustHave, s.Now())
	switch {
	case was == "" && len(v.own.Addresses) >= maxEntries:
		problem = "problem.contact_many"
	case len(v.problems) == 0 && written(Address{}) == Address{}:
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
func (s *Service) changeAddress(w http.ResponseWriter, r *http.Request, a *onAccount, change func(*Profile, int), was, what string) {
	_, err := s.UpdatePerson(r.Context(), a.si.session.PersonID, Edit{By: s.actor(r, a.si)}, func(tx storage.Tx, d *Details) error {
		if err := s.still(tx, a); err != nil {
			return err
		}
		p := &d.Profile
		main, i := mainAddress(p.Addresses), -1
		for at, a := range p.Addresses {
			if at != main && a.key() == was {
				i = at
				break
			}
		}
		switch {
		case was == "" && what == "saved" && len(p.Addresses) < maxEntries:
			i = len(p.Addresses)
			p.Addresses = append(p.Addresses, Address{Primary: i == 0})
		case i < 0: // another by now, or not beside the main one
			return errMismatch
		}
		if main = mainAddress(p.Addresses); what != "primary" { // where nobody has called one so, the one that is shown as it
			p.Addresses[main].Primary = true
		}
		change(p, i)
		return nil
	})
	switch {
	case errors.Is(err, errMismatch), errors.As(err, new(*ValidationError)):
		s.redirect(w, r, profilePath)
	case err != nil:
		s.fail(w, r, err, profilePath)
	default:
		s.redirect(w, r, doneURL(profilePath, what))
	}
}
