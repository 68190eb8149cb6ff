package account

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// still returns person.ErrMismatch when, by now, the session may not do what the request was let in for.
func (s *Service) still(tx storage.Tx, a *front.Visit) error {
	rec, err := s.session.Live(tx, a.Si.ID, s.now())
	if errors.Is(err, storage.ErrNotFound) {
		return person.ErrMismatch
	}
	if err != nil {
		return err
	}
	p, err := person.Records.Get(tx, a.Si.Session.PersonID)
	if err == nil && (rec.PersonID != a.Si.Session.PersonID || rec.Level < a.Level || p.State != person.Active || p.Epoch != rec.Epoch) {
		err = person.ErrMismatch
	}
	return err
}

// showAccount serves GET /account: who is signed in, and what needs their attention. The parameter redirect names where they came from.
func (s *Service) showAccount(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, person.DefaultReturn)
	if !ok || s.front.RememberBack(w, r, a.U) {
		return
	}
	out, err := s.front.SignOutToken(w, r, a.Si)
	if err != nil {
		s.front.Fail(w, r, err, person.DefaultReturn)
		return
	}
	p, d := a.Si.Person, page.Dashboard{Key: "overview"}
	if !a.U.Attributes.NameVisibleOnDashboard {
		p.Name = ""
	}
	who := page.Part{}
	for _, f := range []page.Fact{
		{Label: "account.username", Value: p.Username},
		{Label: "account.name", Value: p.Name},
		{Label: "account.email", Value: p.Email},
		{Label: "account.groups", Value: strings.Join(p.Groups, ", ")},
	} {
		if f.Value != "" {
			who.Facts = append(who.Facts, f)
		}
	}
	d.Parts = append(d.Parts, who)
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		rows, err := s.attention(tx, a)
		if err == nil && len(rows) > 0 {
			d.Parts = append(d.Parts[:1], page.Part{ID: "attention", Title: page.Say("account.attention"), Rows: rows})
		}
		return err
	})
	if err != nil {
		s.front.Fail(w, r, err, person.DefaultReturn)
		return
	}
	d.Parts = append(d.Parts, page.Part{
		ID: "sign-out", Text: page.Say("account.signed_in"),
		Form: &page.PartForm{Action: "/sign-out", CSRF: out, Submit: "account.sign_out", Quiet: true},
	})
	s.front.RenderAccount(w, r, a, http.StatusOK, d)
}

// attention is what the person should do about their account.
func (s *Service) attention(tx storage.Tx, a *front.Visit) (rows []page.Row, err error) {
	st, err := s.stepup.ReadStanding(tx, a.Si)
	if err != nil {
		return nil, err
	}
	add := func(icon, key, label, to string, fill ...any) {
		rows = append(rows, page.Row{Icon: icon, Title: page.Say(key, fill...), Actions: []page.Action{{Label: label, URL: to}}})
	}
	switch p := a.Si.Person; {
	case p.Email == "":
		add("mail", "attention.email_missing", "attention.add", front.ProfilePath)
	case !p.EmailVerified && s.front.VerifiesEmail(a.U):
		add("mail", "attention.email_unverified", "attention.verify", front.ProfilePath)
	}
	if len(st.Has) == 0 && len(st.Settable(session.PasswordLevel)) > 0 {
		add("lock", "attention.second_missing", "attention.set_up", front.SecurityPath)
	}
	if stepup.Pick(st.Has, stepup.TOTPMethod.Name) != nil && len(st.Own.Recovery) < front.FewRecoveryCodes {
		add("key", "attention.recovery", "security.recovery.new", stepup.RecoveryPath, "n", len(st.Own.Recovery))
	}
	return rows, nil
}
