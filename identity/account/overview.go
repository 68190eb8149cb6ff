package account

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// fewRecoveryCodes: with fewer codes left, the person is reminded to make new ones.
const fewRecoveryCodes = 3

// showAccount serves GET /account: who is signed in, and what needs their attention. The parameter redirect names where
// they came from.
func (s *Service) showAccount(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, person.DefaultReturn)
	if err != nil {
		return err
	}
	if err := s.deps.Front.RememberBack(q); err != nil {
		return err
	}
	var rows []web.Row
	var cards []web.Card
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		st, err := s.deps.StepUp.StandingIn(tx, a.SignIn, a.Settings)
		if err != nil {
			return err
		}
		rows = s.reminders(a, st)
		cards, err = s.statusCards(tx, a, st, now)
		return err
	})
	if err != nil {
		return err
	}
	d := web.Dashboard{Key: "overview", Names: furtherNames(a), Cards: cards}
	if len(rows) > 0 {
		d.Parts = append(d.Parts, web.Part{ID: "attention", Title: web.Say("account.attention"), Rows: rows})
	}
	return s.render(a, http.StatusOK, d)
}

// statusCards say how an account is protected, and who has access to it.
func (s *Service) statusCards(tx storage.Tx, a *webflow.Visit, st *mfa.Standing, now time.Time) ([]web.Card, error) {
	open, err := s.deps.Session.OpenSessions(tx, a.SignIn.Session.PersonID, a.SignIn.Session.Epoch, now)
	if err != nil {
		return nil, err
	}
	apps, err := s.apps.Applications(tx, a.SignIn.Session.PersonID, now)
	if err != nil {
		return nil, err
	}
	return []web.Card{
		s.securityCard(a, st),
		{Icon: "device", Title: "account.devices", URL: webflow.DevicesPath, Text: web.Say("card.devices", "n", len(open))},
		{Icon: "app", Title: "account.applications", URL: webflow.ApplicationsPath, Text: web.Say("card.applications", "n", len(apps))},
	}, nil
}

// securityCard says what a sign-in asks for, not what it could ask for.
func (s *Service) securityCard(a *webflow.Visit, st *mfa.Standing) web.Card {
	out := web.Card{Icon: "lock", Title: "account.security", URL: webflow.SecurityPath, Text: web.Say("card.security.off"), Kind: "warn"}
	asks := s.secondFactor(a.Settings)
	switch {
	case asks == authn.SecondFactorAlways, asks == authn.SecondFactorWhenSetUp && st.Protects():
		out.Text, out.Kind = web.Say("card.security.on"), "good"
	case st.Protects():
		out.Text, out.Kind = web.Say("card.security.on_demand"), ""
	}
	return out
}

// furtherNames returns further names of the person: username, address and groups.
func furtherNames(a *webflow.Visit) []string {
	p := a.SignIn.Person
	out := []string{p.Username}
	if p.Email != "" && !strings.EqualFold(p.Email, p.Username) {
		out = append(out, p.Email)
	}
	if p.Name == "" || !a.Settings.Attributes.NameVisibleOnDashboard {
		out = out[1:] // the username is the name
	}
	if len(p.Groups) > 0 {
		out = append(out, strings.Join(p.Groups, ", "))
	}
	return out
}

// reminders lists what the person should do about their account.
func (s *Service) reminders(a *webflow.Visit, st *mfa.Standing) (rows []web.Row) {
	add := func(icon, key, label, to string, fill ...any) {
		rows = append(rows, web.Row{Icon: icon, Title: web.Say(key, fill...), Actions: []web.Action{{Label: label, URL: to}}})
	}
	switch p := a.SignIn.Person; {
	case p.Email == "":
		add("mail", "attention.email_missing", "attention.add", webflow.ProfilePath)
	case !p.EmailVerified && s.deps.Front.VerifiesEmail(a.Settings):
		add("mail", "attention.email_unverified", "attention.verify", webflow.ProfilePath)
	}
	if !st.Protects() && s.secondFactor(a.Settings) != authn.SecondFactorAlways && len(st.Settable(session.PasswordLevel)) > 0 {
		add("lock", "attention.second_missing", "attention.set_up", webflow.SecurityPath)
	}
	if st.Recovers() && len(st.Own.Recovery) < fewRecoveryCodes {
		add("key", "attention.recovery", "security.recovery.new", mfa.RecoveryPath, "n", len(st.Own.Recovery))
	}
	return rows
}
