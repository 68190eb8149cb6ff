package account

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// fewRecoveryCodes: with fewer codes left, the person is reminded to make new ones.
const fewRecoveryCodes = 3

// showAccount serves GET /account: who is signed in, and what needs their attention. The parameter redirect names where
// they came from.
func (s *Service) showAccount(q *front.Request) error {
	a, err := s.front.VisitOf(q, person.DefaultReturn)
	if err != nil {
		return err
	}
	if err := s.front.RememberBack(q); err != nil {
		return err
	}
	var rows []page.Row
	var cards []page.Card
	now := s.now()
	err = s.store.View(q.Context(), func(tx storage.Tx) error {
		st, err := s.stepup.StandingIn(tx, a.SignIn, a.Settings)
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
	d := page.Dashboard{Key: "overview", Names: furtherNames(a), Cards: cards}
	if len(rows) > 0 {
		d.Parts = append(d.Parts, page.Part{ID: "attention", Title: page.Say("account.attention"), Rows: rows})
	}
	return s.render(a, http.StatusOK, d)
}

// statusCards say how an account is protected, and who has access to it.
func (s *Service) statusCards(tx storage.Tx, a *front.Visit, st *stepup.Standing, now time.Time) ([]page.Card, error) {
	open, err := s.session.OpenSessions(tx, a.SignIn.Session.PersonID, a.SignIn.Session.Epoch, now)
	if err != nil {
		return nil, err
	}
	apps, err := s.apps.Applications(tx, a.SignIn.Session.PersonID, now)
	if err != nil {
		return nil, err
	}
	return []page.Card{
		s.securityCard(a, st),
		{Icon: "device", Title: "account.devices", URL: front.DevicesPath, Text: page.Say("card.devices", "n", len(open))},
		{Icon: "app", Title: "account.applications", URL: front.ApplicationsPath, Text: page.Say("card.applications", "n", len(apps))},
	}, nil
}

// securityCard says what a sign-in asks for, not what it could ask for.
func (s *Service) securityCard(a *front.Visit, st *stepup.Standing) page.Card {
	out := page.Card{Icon: "lock", Title: "account.security", URL: front.SecurityPath, Text: page.Say("card.security.off"), Kind: "warn"}
	asks := s.secondFactor(a.Settings)
	switch {
	case asks == login.SecondFactorAlways, asks == login.SecondFactorWhenSetUp && st.Protects():
		out.Text, out.Kind = page.Say("card.security.on"), "good"
	case st.Protects():
		out.Text, out.Kind = page.Say("card.security.on_demand"), ""
	}
	return out
}

// furtherNames are what else identifies the person: username, address and groups.
func furtherNames(a *front.Visit) []string {
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
func (s *Service) reminders(a *front.Visit, st *stepup.Standing) (rows []page.Row) {
	add := func(icon, key, label, to string, fill ...any) {
		rows = append(rows, page.Row{Icon: icon, Title: page.Say(key, fill...), Actions: []page.Action{{Label: label, URL: to}}})
	}
	switch p := a.SignIn.Person; {
	case p.Email == "":
		add("mail", "attention.email_missing", "attention.add", front.ProfilePath)
	case !p.EmailVerified && s.front.VerifiesEmail(a.Settings):
		add("mail", "attention.email_unverified", "attention.verify", front.ProfilePath)
	}
	if !st.Protects() && s.secondFactor(a.Settings) != login.SecondFactorAlways && len(st.Settable(session.PasswordLevel)) > 0 {
		add("lock", "attention.second_missing", "attention.set_up", front.SecurityPath)
	}
	if st.Recovers() && len(st.Own.Recovery) < fewRecoveryCodes {
		add("key", "attention.recovery", "security.recovery.new", stepup.RecoveryPath, "n", len(st.Own.Recovery))
	}
	return rows
}
