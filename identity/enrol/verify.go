package enrol

import (
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const LinkVerification proof.LinkKind = "verification"

const (
	VerifyPath = "/verify"

	verificationLife = 7 * 24 * time.Hour
	linkAddress      = "address" // of the data: the address that the link shows to be the person's
	verifiedPath     = VerifyPath + "/done"
)

// askVerified sends a new person, whose address nobody has verified, a link that does, where the switch of how they came says so.
func (s *Service) askVerified(tx storage.Tx, t person.Recipient, how person.Welcome, now time.Time) error {
	on, err := s.person.Switches(tx)
	if err != nil {
		return err
	}
	wanted := how == person.ReasonWeb && on.EmailVerification.OnWebEnabled || how == person.ReasonAPI && on.EmailVerification.OnAPIEnabled
	e := t.Profile.PrimaryEmail()
	if !wanted || e.Value == "" || e.Verified || t.Rec.State != person.Active {
		return nil
	}
	n := t.Notice(notify.EmailVerification, now)
	n.To = e.Value
	if how == person.ReasonWeb { // whoever has typed the name may have nothing to do with the address
		n.Name = ""
	}
	if n.Link, err = s.proof.NewLink(tx, LinkVerification, t.ID, map[string]string{linkAddress: e.Value}, verificationLife, now); err != nil {
		return err
	}
	return s.notify.Send(tx, n)
}

// showVerify serves GET /verify: it asks whether the address is that of the account, and changes nothing.
func (s *Service) showVerify(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Detour(w, r, VerifyPath, always)
	if !ok {
		return
	}
	o, ok := s.front.OpenLink(w, r, LinkVerification, "")
	if !ok {
		return
	}
	var p person.Record
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		p, err = person.Records.Get(tx, o.Rec.PersonID)
		return err
	})
	if err != nil {
		s.front.Fail(w, r, err, VerifyPath)
		return
	}
	s.front.FormPage(w, r, a, o.Form(), http.StatusOK, page.Form{
		Key: "verify", Fill: []any{"to", o.Rec.Data[linkAddress], "account", p.Username}, Action: VerifyPath,
	})
}

// handleVerify serves POST /verify: the address is verified, and the link used up.
func (s *Service) handleVerify(w http.ResponseWriter, r *http.Request) {
	o, ok := s.front.OpenLink(w, r, LinkVerification, "")
	if !ok || !s.front.CheckLinkForm(w, r, o) {
		return
	}
	now := s.now()
	ev, err := s.person.NewEvents(s.origin(r), person.EventUpdated)
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			link, err := s.proof.SpendLink(tx, LinkVerification, o.Token, now)
			if err != nil {
				return err
			}
			rec, err := verifyAddress(tx, link.PersonID, link.Data[linkAddress], now)
			if err != nil {
				return err
			}
			e := event.Actor{ID: link.PersonID, Name: rec.Username}.Fill(ev[0], link.PersonID, "e-mail address verified")
			e.Partition = rec.PartitionName()
			return s.events.Append(tx, e)
		})
	}
	if err != nil {
		s.front.FailLink(w, r, LinkVerification, "", err)
		return
	}
	s.jar.Clear(w, proof.LinkCookieOf(LinkVerification))
	s.front.Redirect(w, r, verifiedPath)
}

// verifyAddress marks an address of a person as verified, or returns proof.ErrNoLink when it is not theirs any more.
func verifyAddress(tx storage.Tx, id, address string, now time.Time) (person.Record, error) {
	rec, err := person.Records.Get(tx, id)
	if err != nil {
		return rec, err
	}
	prof, err := person.ReadProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	prof.Profile = prof.Profile.Clone()
	i := slices.IndexFunc(prof.Profile.EmailAddresses, func(e person.EmailAddress) bool { return person.FoldEmail(e.Value) == person.FoldEmail(address) })
	if i < 0 {
		return rec, proof.ErrNoLink
	}
	prof.Profile.EmailAddresses[i].Verified = true
	rec.Take(&prof)
	rec.UpdatedAt = now
	if err := person.Records.Put(tx, id, rec, time.Time{}); err != nil {
		return rec, err
	}
	return rec, person.Profiles.Put(tx, id, prof, time.Time{})
}

// showVerified serves GET /verify/done.
func (s *Service) showVerified(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, verifiedPath, always); ok {
		s.front.FormPage(w, r, a, "", http.StatusOK, page.Form{Key: "verified", Next: person.DefaultReturn})
	}
}
