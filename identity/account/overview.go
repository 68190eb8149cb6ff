package account

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
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
	out, err := s.front.FormToken(q, front.SessionForm("sign_out", a.SignIn))
	if err != nil {
		return err
	}
	var rows []page.Row
	err = s.store.View(q.Context(), func(tx storage.Tx) error {
		st, err := s.stepup.StandingIn(tx, a.SignIn, a.Settings)
		if err == nil {
			rows = s.reminders(a, st)
		}
		return err
	})
	if err != nil {
		return err
	}
	d := page.Dashboard{Key: "overview", Parts: []page.Part{identityPart(a)}}
	if len(rows) > 0 {
		d.Parts = append(d.Parts, page.Part{ID: "attention", Title: page.Say("account.attention"), Rows: rows})
	}
	d.Parts = append(d.Parts, page.Part{
		ID: "sign-out", Text: page.Say("account.signed_in"),
		Form: &page.PartForm{Action: "/sign-out", CSRF: out, Submit: "account.sign_out", Quiet: true},
	})
	return s.render(a, http.StatusOK, d)
}

// identityPart says who is signed in.
func identityPart(a *front.Visit) (part page.Part) {
	p := a.SignIn.Person
	if !a.Settings.Attributes.NameVisibleOnDashboard {
		p.Name = ""
	}
	for _, f := range []page.Fact{
		{Label: "account.username", Value: p.Username},
		{Label: "account.name", Value: p.Name},
		{Label: "account.email", Value: p.Email},
		{Label: "account.groups", Value: strings.Join(p.Groups, ", ")},
	} {
		if f.Value != "" {
			part.Facts = append(part.Facts, f)
		}
	}
	return part
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
	if len(st.Has) == 0 && len(st.Settable(session.PasswordLevel)) > 0 {
		add("lock", "attention.second_missing", "attention.set_up", front.SecurityPath)
	}
	if st.Recovers() && len(st.Own.Recovery) < fewRecoveryCodes {
		add("key", "attention.recovery", "security.recovery.new", stepup.RecoveryPath, "n", len(st.Own.Recovery))
	}
	return rows
}
