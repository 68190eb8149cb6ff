package enrol

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const invitationPath = "/invitation"

// showInvitation serves GET /invitation: an invited person chooses how to sign in from now on.
func (s *Service) showInvitation(q *front.Request) error {
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
func (s *Service) signInWays(q *front.Request, x *invitation) (*federation.Ways, error) {
	q.Again = invitationPath
	if !x.isChecked(x.browser) {
		return nil, leave(q, invitationCheckPath)
	}
	known, err := s.federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, err
	}
	return known.Ways(x.demand()).WithoutPhones(), nil
}

// renderInvitation writes the page. problems are those of the password and the custom fields, by field.
func (s *Service) renderInvitation(
	q *front.Request, x *invitation, ways *federation.Ways, status int, custom []person.CustomAttribute,
	problems map[string]string,
) (err error) {
	in := page.Invitation{Action: invitationPath, Account: x.rec.Username}
	if in.CSRF, err = s.front.FormToken(q, x.form); err != nil {
		return err
	}
	if ways.Password {
		password := front.NewPasswordField(&x.units.PasswordPolicy, problems["password"])
		password.Label = "invitation.password"
		list := []page.Field{{
			Name: "username", Label: "sign_in.username", Value: x.rec.Username, Autocomplete: "username", ReadOnly: true,
		}}
		list = append(list, front.CustomInputs(person.CustomFieldsOf(x.units, config.OwnMethod), custom, problems)...)
		in.Fields = page.Fields(false, append(list, password)...)
	}
	for _, p := range ways.Providers {
		in.Providers = append(in.Providers, page.Provider{Name: p.Name, URL: p.ID, Icon: s.pages.Icon(p.ID)})
	}
	s.pages.Render(q.W, q.Request, page.View{
		Template: "invitation", Status: status, Locales: x.locales(), Data: in,
		Client: login.Client{Targets: front.TargetsOf(afterEnrolment(x.units))},
	})
	return nil
}

// demand is the sign-in by a provider that an invitation leads to.
func (x *invitation) demand() login.Demand {
	to := cmp.Or(page.LocalPath(afterEnrolment(x.units)), "/sign-in")
	return login.Demand{MaxAge: -1, Return: to, Hint: x.inv.Email, Locales: x.locales()}
}

// handleInvitation serves POST /invitation: a password, or the choice of a provider.
func (s *Service) handleInvitation(q *front.Request) error {
	x, err := s.openInvitation(q)
	if err == nil {
		err = s.front.CheckForm(q, x.form, invitationPath)
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
		return &front.Answer{Status: http.StatusForbidden, Key: "error.closed"}
	}
	password, problems := q.PostForm.Get("password"), map[string]string{}
	custom := front.ReadCustom(person.CustomFieldsOf(x.units, config.OwnMethod), q.PostForm, problems)
	if password == "" {
		problems["password"] = "problem.password"
	}
	if len(problems) > 0 {
		return s.renderInvitation(q, x, ways, http.StatusUnprocessableEntity, custom, problems)
	}
	phc, err := s.person.HashNew(q.Context(), password, person.NamesOf(&x.rec, &x.prof.Profile)...)
	if problem := front.PasswordProblem(err); problem != "" {
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
