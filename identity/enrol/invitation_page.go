package enrol

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const LinkInvitation proof.LinkKind = "invitation"

const (
	InvitationPath      = "/invitation"
	invitationCheckPath = InvitationPath + "/check"
)

// openInvitation returns the invitation whose link this browser has opened, and the hash of the browser's cookie. Otherwise it has written the answer and is
// not ok.
func (s *Service) openInvitation(w http.ResponseWriter, r *http.Request) (x *invitation, o *proof.OpenLink, browser string, ok bool) {
	if o, ok = s.front.OpenLink(w, r, LinkInvitation, "/sign-in"); !ok {
		return nil, nil, "", false
	}
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		x, err = s.readInvitation(tx, o.Token, now)
		return err
	})
	if err == nil {
		browser, err = s.jar.Browser(w, r, s.front.NewID)
	}
	if err == nil {
		err = s.front.IsOpen(r.Context())
	}
	if err != nil {
		s.failInvitation(w, r, err)
		return nil, nil, "", false
	}
	x.csrf = s.pages.CSRF(browser, o.Form())
	if browser = proof.Hashed(browser); x.locked(browser) {
		s.pages.Error(w, r, http.StatusForbidden, "error.invitation_locked", "")
		return nil, nil, "", false
	}
	return x, o, browser, true
}

// failInvitation writes the page for an invitation that cannot go on.
func (s *Service) failInvitation(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errLocked) {
		s.pages.Error(w, r, http.StatusForbidden, "error.invitation_locked", "")
		return
	}
	s.front.FailLink(w, r, LinkInvitation, "/sign-in", err)
}

// showInvitation serves GET /invitation: an invited person chooses how to sign in from now on.
func (s *Service) showInvitation(w http.ResponseWriter, r *http.Request) {
	x, _, browser, ok := s.openInvitation(w, r)
	switch {
	case !ok:
	case !x.shown(browser):
		s.front.Redirect(w, r, invitationCheckPath)
	default:
		s.invitationPage(w, r, x, http.StatusOK, x.prof.Profile.CustomAttributes, nil)
	}
}

// invitationPage writes the page. problems are what is wrong with the password and the custom fields, by the names of the fields.
func (s *Service) invitationPage(w http.ResponseWriter, r *http.Request, x *invitation, status int, custom []person.CustomAttribute, problems map[string]string) {
	known, err := s.federation.Current(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, InvitationPath)
		return
	}
	ways, to := known.Ways(invitationDemand(x)), afterInvitation(x.units)
	in := page.Invitation{Action: InvitationPath, CSRF: x.csrf, Account: x.rec.Username}
	if ways.Password {
		password := front.NewPasswordField(&x.units.PasswordPolicy, problems["password"])
		password.Label = "invitation.password"
		list := []page.Field{{Name: "username", Label: "sign_in.username", Value: x.rec.Username, Autocomplete: "username", ReadOnly: true}}
		list = append(list, front.CustomInputs(person.CustomFieldsOf(x.units, config.OwnMethod), custom, problems)...)
		in.Fields = page.Fields(false, append(list, password)...)
	}
	for _, p := range ways.Providers {
		in.Providers = append(in.Providers, page.Provider{Name: p.Name, URL: p.ID, Icon: s.pages.Icon(p.ID)})
	}
	s.pages.Render(w, r, page.View{
		Template: "invitation", Status: status, Locales: x.locales(), Client: login.Client{Targets: front.TargetsOf(to)}, Data: in,
	})
}

// locales are the language that the person prefers, if that is known.
func (x *invitation) locales() []string { return person.TheOnly(x.rec.Locale) }

// invitationDemand is the sign-in that an invitation leads to by a provider.
func invitationDemand(x *invitation) login.Demand {
	return login.Demand{MaxAge: -1, Return: cmp.Or(page.LocalPath(afterInvitation(x.units)), "/sign-in"), Hint: x.inv.Email, Locales: x.locales()}
}

// afterInvitation is where a person goes who has accepted.
func afterInvitation(u *config.Units) string {
	if u.Redirects.URLAfterSignUp != "" {
		return front.Absolute(u, u.Redirects.URLAfterSignUp)
	}
	return front.Landing(u, "")
}

// handleInvitation serves POST /invitation: a password, or the way to a provider.
func (s *Service) handleInvitation(w http.ResponseWriter, r *http.Request) {
	x, o, browser, ok := s.openInvitation(w, r)
	if !ok || !s.front.CheckLinkForm(w, r, o) {
		return
	}
	if !x.shown(browser) {
		s.front.Redirect(w, r, invitationCheckPath)
		return
	}
	known, err := s.federation.Current(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, InvitationPath)
		return
	}
	ways := known.Ways(invitationDemand(x))
	if id := r.PostForm.Get("idp"); id != "" {
		s.inviteByProvider(w, r, x, ways.Find(id))
		return
	}
	password, problems := r.PostForm.Get("password"), map[string]string{}
	if !ways.Password {
		s.pages.Error(w, r, http.StatusForbidden, "error.closed", "")
		return
	}
	custom := front.ReadCustom(person.CustomFieldsOf(x.units, config.OwnMethod), r.PostForm, problems)
	if password == "" {
		problems["password"] = "problem.password"
	}
	if len(problems) > 0 {
		s.invitationPage(w, r, x, http.StatusUnprocessableEntity, custom, problems)
		return
	}
	phc, err := s.person.HashNew(r.Context(), password)
	if problem := front.PasswordProblem(err); problem != "" {
		s.invitationPage(w, r, x, http.StatusUnprocessableEntity, custom, map[string]string{"password": problem})
		return
	}
	if err == nil {
		err = s.acceptInvitation(w, r, x, browser, phc, custom)
	}
	switch {
	case errors.Is(err, person.ErrMismatch): // what was shown holds no more
		s.front.Redirect(w, r, invitationCheckPath)
	case err != nil:
		s.failInvitation(w, r, err)
	}
}

// appendInvited records what happened to an invited person.
func (s *Service) appendInvited(tx storage.Tx, x *invitation, by event.Actor, reason string, happened ...event.Event) error {
	for _, e := range happened {
		e = by.Fill(e, x.id, reason)
		e.Partition = x.rec.PartitionName()
		if err := s.events.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// themselves is the invited person as who does something.
func (x *invitation) themselves(from event.Origin) event.Actor {
	return event.Actor{ID: x.id, Name: x.rec.Username, Origin: from}
}

// showInvitationCheck serves GET /invitation/check: an invited person shows that they are meant.
func (s *Service) showInvitationCheck(w http.ResponseWriter, r *http.Request) {
	x, _, browser, ok := s.openInvitation(w, r)
	switch {
	case !ok:
	case x.shown(browser):
		s.front.Redirect(w, r, InvitationPath)
	default:
		ways := s.invitationWays(x)
		way := findWay(ways, r.URL.Query().Get("way"))
		if way == nil && len(ways) == 1 {
			way = ways[0]
		}
		s.invitationCheckPage(w, r, x, ways, way, http.StatusOK, page.InvitationCheck{})
	}
}

func invitationCheckURL(way *invitationWay) string {
	return invitationCheckPath + "?" + url.Values{"way": {way.name}}.Encode()
}

// invitationCheckPage writes the page of one way, or of those there are.
func (s *Service) invitationCheckPage(w http.ResponseWriter, r *http.Request, x *invitation, ways []*invitationWay, way *invitationWay, status int, in page.InvitationCheck) {
	in.Action, in.CSRF = invitationCheckPath, x.csrf
	in.Skip = x.units.Features.AllowSignUpWithoutInvitationValidation
	for _, one := range ways {
		in.Choices = append(in.Choices, page.InvitationChoice{Way: one.name, URL: invitationCheckURL(one)})
	}
	if way != nil {
		in.Way, in.Action = way.name, invitationCheckURL(way)
		if err := s.describeWay(r, x, way, &in); err != nil {
			s.front.Fail(w, r, err, in.Action)
			return
		}
	}
	s.pages.Render(w, r, page.View{Template: "invitation_check", Status: status, Locales: x.locales(), Data: in})
}

// describeWay fills in what the page of a way asks.
func (s *Service) describeWay(r *http.Request, x *invitation, way *invitationWay, in *page.InvitationCheck) error {
	if way.name == "sms" {
		c := x.textedTo(proof.Hashed(s.federation.BrowserID(r)))
		in.Send, in.To = true, person.MaskPhone(c.To)
		now := s.now()
		err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
			in.Sent, err = s.proof.CodeWaits(tx, c, now)
			return err
		})
		if err != nil || !in.Sent {
			return err
		}
	}
	f := page.Field{Name: "answer", Label: "invitation_check." + way.name + ".label", Required: true, Invalid: in.Problem != ""}
	if way.name == "birthdate" {
		f.Type, f.Autocomplete = "date", "bday"
	} else {
		f.Type, f.MaxLength = "code", proof.MaxCode
	}
	if way.name == "code" { // letters too
		f.InputMode = "text"
	}
	in.Fields = page.Fields(in.Problem != "", f)
	return nil
}

// handleInvitationCheck serves POST /invitation/check.
func (s *Service) handleInvitationCheck(w http.ResponseWriter, r *http.Request) {
	x, o, browser, ok := s.openInvitation(w, r)
	if !ok || !s.front.CheckLinkForm(w, r, o) {
		return
	}
	ways := s.invitationWays(x)
	way := findWay(ways, r.URL.Query().Get("way"))
	answer := r.PostForm.Get("answer")
	var err error
	switch {
	case x.shown(browser):
	case r.PostForm.Get("skip") != "":
		err = s.skipInvitation(r.Context(), o.Token, browser)
	case way == nil:
		s.front.Redirect(w, r, invitationCheckPath)
		return
	case way.name == "sms" && r.PostForm.Get("send") != "":
		s.handleTextInvited(w, r, x, browser, ways, way)
		return
	case answer == "":
		s.invitationCheckPage(w, r, x, ways, way, http.StatusUnprocessableEntity, page.InvitationCheck{Problem: "problem.invitation_missing"})
		return
	default:
		err = s.tryInvitation(r.Context(), x.themselves(s.origin(r)), o.Token, browser, way, answer)
	}
	switch {
	case err == nil:
		s.front.Redirect(w, r, InvitationPath)
	case errors.Is(err, person.ErrMismatch):
		s.log.Info("invitation: wrong answer", zap.String("person_id", x.id), zap.String("client_ip", s.origin(r).ClientIP))
		s.afterWrong(w, r, way)
	default:
		s.failInvitation(w, r, err)
	}
}

// afterWrong asks again after a wrong answer, unless it was the last that was taken.
func (s *Service) afterWrong(w http.ResponseWriter, r *http.Request, way *invitationWay) {
	x, _, _, ok := s.openInvitation(w, r)
	if ok {
		s.invitationCheckPage(w, r, x, s.invitationWays(x), way, http.StatusUnprocessableEntity, page.InvitationCheck{Problem: "problem.invitation"})
	}
}
