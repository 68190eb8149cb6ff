package activation

import (
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	linkVerification challenge.LinkKind = "verification"

	verifyPath   = "/verify"
	verifiedPath = verifyPath + "/done"

	verificationLife = 7 * 24 * time.Hour
	linkAddress      = "address" // of the link's data: the address that it verifies
)

// sendVerification sends a new person a link that verifies the address, if the switch for this kind of person is on.
func (s *Service) sendVerification(tx storage.Tx, t person.Recipient, how person.Welcome, now time.Time) error {
	u, err := s.deps.Person.Switches(tx)
	if err != nil {
		return err
	}
	on := how == person.ReasonWeb && u.EmailVerification.OnWebEnabled ||
		how == person.ReasonAPI && u.EmailVerification.OnAPIEnabled
	e := t.Profile.PrimaryEmail()
	if !on || e.Value == "" || e.Verified || t.Record.State != person.Active {
		return nil
	}
	n := t.Notice(notify.EmailVerification, now)
	n.To = e.Value
	if how == person.ReasonWeb { // a stranger can have typed the name together with the address of another person
		n.Name = ""
	}
	data := map[string]string{linkAddress: e.Value}
	if n.Link, err = s.deps.Proof.NewLink(tx, linkVerification, t.ID, data, verificationLife, now); err != nil {
		return err
	}
	return s.deps.Notify.Send(tx, n)
}

// showVerify serves GET /verify: it asks whether the address belongs to the account, and changes nothing.
func (s *Service) showVerify(q *webflow.Request) error {
	var p person.Record
	o, err := s.deps.Front.LinkIn(q, linkVerification, "", func(tx storage.Tx, o *challenge.OpenLink) (err error) {
		p, err = person.Records.Get(tx, o.Record.PersonID)
		return err
	})
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, webflow.Detour{U: q.Settings}, o.Form(), http.StatusOK, web.Form{
		Key: "verify", Fill: []any{"to", o.Record.Data[linkAddress], "account", p.Username}, Action: verifyPath,
	})
}

// handleVerify serves POST /verify: the address is verified, and the link is used up.
func (s *Service) handleVerify(q *webflow.Request) error {
	o, err := s.deps.Front.LinkIn(q, linkVerification, "")
	if err == nil {
		err = s.deps.Front.CheckLink(q, o)
	}
	if err != nil {
		return err
	}
	if err := s.verifyByLink(q, o); err != nil {
		return s.deps.Front.LinkError(q, linkVerification, "", err)
	}
	s.deps.Jar.Clear(q.W, challenge.LinkCookieOf(linkVerification))
	return q.Redirect(verifiedPath)
}

func (s *Service) verifyByLink(q *webflow.Request, o *challenge.OpenLink) error {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), person.EventUpdated)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		link, err := s.deps.Proof.SpendLink(tx, linkVerification, o.Token, now)
		if err != nil {
			return err
		}
		rec, err := putVerified(tx, link.PersonID, link.Data[linkAddress], now)
		if err != nil {
			return err
		}
		e := audit.Actor{ID: link.PersonID, Name: rec.Username}.Fill(ev[0], link.PersonID, "e-mail address verified")
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
}

// putVerified stores that an address of a person is verified. challenge.ErrNoLink: the person no longer has the
// address.
func putVerified(tx storage.Tx, id, address string, now time.Time) (person.Record, error) {
	rec, err := person.Records.Get(tx, id)
	if err != nil {
		return rec, err
	}
	prof, err := person.ReadProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	if !prof.VerifyEmail(address) {
		return rec, challenge.ErrNoLink
	}
	rec.Take(&prof)
	rec.UpdatedAt = now
	if err := person.Records.Put(tx, id, rec, time.Time{}); err != nil {
		return rec, err
	}
	return rec, person.Profiles.Put(tx, id, prof, time.Time{})
}

// showVerified serves GET /verify/done.
func (s *Service) showVerified(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, verifiedPath, webflow.Always)
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, a, "", http.StatusOK, web.Form{Key: "verified", Next: person.DefaultReturn})
}
