package serviceprovider

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const maxShown = 400 // attributes that one page asks about

// decision is the answer of a person: the attributes that they were shown, and those of them that they allow.
type decision struct {
	shown, allowed   []string
	agreed, declined []string // filled in by decide
}

// decide applies the answer to what the service provider would be told now. What was not on the page is not agreed to.
func (d *decision) decide(all []releasedAttribute) {
	d.agreed, d.declined = nil, nil
	for _, t := range all {
		switch {
		case !slices.Contains(d.shown, t.Source):
		case t.Optional && !slices.Contains(d.allowed, t.Source):
			d.declined = append(d.declined, t.Source)
		default:
			d.agreed = append(d.agreed, t.Source)
		}
	}
}

// releaseForm binds the form to its request and to the person who is asked.
func releaseForm(x *entry) string { return "release:" + x.o.name + ":" + x.result.SessionID }

// ask shows the page that asks the person what the service provider may know.
func (s *Service) ask(q *webflow.Request, x *entry) error {
	if x.o.rec.Passive {
		return s.refuse(q, x.o, samlidp.Responder, samlidp.NoPassive, denial.Refusal{Reason: denial.ConsentNeeded},
			errors.New("the person has to be asked which data may be shared"))
	}
	csrf, err := s.front.FormToken(q, releaseForm(x))
	if err != nil {
		return err
	}
	data := web.Release{Action: continueURL(x.o.name), CSRF: csrf, Account: x.who.Username, Another: web.AnotherAccount(continueURL(x.o.name))}
	for _, t := range x.told {
		row := web.ReleaseRow{Name: t.Source, Label: t.Label, Optional: t.Optional}
		if name := canonical(t.Source); row.Label == "" && isClaim(name) {
			row.Key = "attribute." + name
		}
		if t.Show {
			row.Values = t.values
		}
		data.Rows = append(data.Rows, row)
	}
	client := x.o.m.client()
	client.Targets = origin(x.o.rec.Service)
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "release", Client: client, Data: data})
	return nil
}

// handleConsent serves POST /sso/continue?flow=…, the form of that page.
func (s *Service) handleConsent(q *webflow.Request) error {
	o, err := s.openOf(q)
	if err != nil {
		return err
	}
	q.Again = continueURL(o.name)
	if q.SignIn == nil {
		return q.Redirect(continueURL(o.name))
	}
	x := &entry{o: o, result: q.SignIn.Result()}
	if err := s.front.CheckForm(q, releaseForm(x), q.Again); err != nil {
		return err
	}
	if q.PostForm.Get("decision") != "allow" {
		return s.refuse(q, o, samlidp.Responder, samlidp.RequestDenied,
			denial.Refusal{Reason: denial.ConsentDenied, Status: http.StatusForbidden}, errors.New("the person did not allow it"))
	}
	return s.answer(q, o, &decision{shown: listed(q.PostForm, "shown-"), allowed: listed(q.PostForm, "allowed-")})
}

// listed returns the values of the numbered fields of a form.
func listed(form url.Values, prefix string) (out []string) {
	for i := range maxShown {
		if v := form.Get(prefix + strconv.Itoa(i)); v != "" {
			out = append(out, v)
		}
	}
	return out
}
