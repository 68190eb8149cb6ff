package invitation

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const invitationPath = "/invitation"

// showInvitation serves GET /invitation: an invited person chooses how to sign in from now on.
func (s *Service) showInvitation(q *webflow.Request) error {
	x, err := s.openInvitation(q)
	if err != nil {
		return err
	}
	ways, err := s.signInWays(q, x)
	if err != nil {
		return err
	}
	return s.renderInvitation(q, x, ways, http.StatusOK, x.prof.Profile.CustomAttributes, nil)
}

// signInWays returns the ways to sign in that a person can choose who has passed the check.
func (s *Service) signInWays(q *webflow.Request, x *invitation) (*federation.Ways, error) {
	q.Again = invitationPath
	if !x.isChecked(x.browser) {
		return nil, q.RedirectAway(invitationCheckPath)
	}
	known, err := s.deps.Federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, err
	}
	return known.Ways(x.demand()).WithoutPhones(), nil
}

// renderInvitation writes the page. problems are those of the password and the custom fields, by field.
func (s *Service) renderInvitation(
	q *webflow.Request, x *invitation, ways *federation.Ways, status int, custom []person.CustomAttribute,
	problems map[string]string,
) (err error) {
	in := web.Invitation{Action: invitationPath, Account: x.rec.Username}
	if in.CSRF, err = s.deps.Front.FormToken(q, x.form); err != nil {
		return err
	}
	if ways.Password {
		password := webflow.NewPasswordField(&x.units.PasswordPolicy, problems["password"])
		password.Label = "invitation.password"
		list := []web.Field{{
			Name: "username", Label: "sign_in.username", Value: x.rec.Username, Autocomplete: "username", ReadOnly: true,
		}}
		list = append(list, webflow.CustomInputs(person.CustomFieldsOf(x.units, settings.OwnMethod), custom, problems)...)
		in.Fields = web.Fields(false, append(list, password)...)
	}
	logos := s.deps.Pages.ProviderLogos(q.Context())
	for _, p := range ways.Providers {
		in.Providers = append(in.Providers, web.Provider{Name: p.Name, URL: p.ID, Logo: logos[p.ID]})
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{
		Template: "invitation", Status: status, Locales: x.locales(), Data: in,
		Client: authn.Client{Targets: webflow.TargetsOf(webflow.AfterSignUp(x.units))},
	})
	return nil
}

// demand is the sign-in by a provider that an invitation leads to.
func (x *invitation) demand() authn.Demand {
	to := cmp.Or(web.LocalPath(webflow.AfterSignUp(x.units)), "/sign-in")
	return authn.Demand{MaxAge: -1, Return: to, Hint: x.inv.Email, Locales: x.locales()}
}

// handleInvitation serves POST /invitation: a password, or the choice of a provider.
func (s *Service) handleInvitation(q *webflow.Request) error {
	x, err := s.openInvitation(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form, invitationPath)
	}
	if err != nil {
		return err
	}
	ways, err := s.signInWays(q, x)
	if err != nil {
		return err
	}
	if id := q.PostForm.Get("idp"); id != "" {
		return s.acceptByProvider(q, x, ways.Find(id))
	}
	if !ways.Password {
		return &webflow.Answer{Status: http.StatusForbidden, Key: "error.closed"}
	}
	password, problems := q.PostForm.Get("password"), map[string]string{}
	custom := webflow.ReadCustom(person.CustomFieldsOf(x.units, settings.OwnMethod), q.PostForm, problems)
	if password == "" {
		problems["password"] = "problem.password"
	}
	if len(problems) > 0 {
		return s.renderInvitation(q, x, ways, http.StatusUnprocessableEntity, custom, problems)
	}
	phc, err := s.deps.Person.HashNew(q.Context(), password, person.NamesOf(&x.rec, &x.prof.Profile)...)
	if problem := webflow.PasswordProblem(err); problem != "" {
		problems["password"] = problem
		return s.renderInvitation(q, x, ways, http.StatusUnprocessableEntity, custom, problems)
	}
	if err == nil {
		err = s.acceptByPassword(q, x, phc, custom)
	}
	switch {
	case errors.Is(err, person.ErrMismatch): // the check is no longer valid
		return q.Redirect(invitationCheckPath)
	case err != nil:
		return s.invitationError(q, err)
	}
	return nil
}
