package identity

import (
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const linkVerification linkKind = "verification"

const (
	verifyPath = "/verify"

	verificationLife = 7 * 24 * time.Hour
	linkAddress      = "address" // of the data: the address that the link shows to be the person's
	verifiedPath     = verifyPath + "/done"
)

// askVerified sends a new person, whose address nobody has verified, a link that does, where the switch of how they came says so.
func (s *Service) askVerified(tx storage.Tx, t told, how welcome, now time.Time) error {
	on, err := s.switches(tx)
	if err != nil {
		return err
	}
	wanted := how == onWeb && on.EmailVerification.OnWebEnabled || how == onAPI && on.EmailVerification.OnAPIEnabled
	e := t.profile.primaryEmail()
	if !wanted || e.Value == "" || e.Verified || t.rec.State != Active {
		return nil
	}
	n := t.notice(notify.EmailVerification, now)
	n.To = e.Value
	if how == onWeb { // whoever has typed the name may have nothing to do with the address
		n.Name = ""
	}
	if n.Link, err = s.newLink(tx, linkVerification, t.id, map[string]string{linkAddress: e.Value}, verificationLife, now); err != nil {
		return err
	}
	return s.Notify.Send(tx, n)
}

// showVerify serves GET /verify: it asks whether the address is that of the account, and changes nothing.
func (s *Service) showVerify(w http.ResponseWriter, r *http.Request) {
	a, ok := s.beside(w, r, verifyPath, always)
	if !ok {
		return
	}
	o, ok := s.openLink(w, r, linkVerification, "")
	if !ok {
		return
	}
	var p personRecord
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		p, err = persons.Get(tx, o.rec.PersonID)
		return err
	})
	if err != nil {
		s.fail(w, r, err, verifyPath)
		return
	}
	s.formPage(w, r, a, o.form(), http.StatusOK, page.Form{
		Key: "verify", Fill: []any{"to", o.rec.Data[linkAddress], "account", p.Username}, Action: verifyPath,
	})
}

// handleVerify serves POST /verify: the address is verified, and the link used up.
func (s *Service) handleVerify(w http.ResponseWriter, r *http.Request) {
	o, ok := s.openLink(w, r, linkVerification, "")
	if !ok || !s.checkLinkForm(w, r, o) {
		return
	}
	now := s.Now()
	ev, err := s.newEvents(s.Origin(r), personUpdated)
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			link, err := s.spendLink(tx, linkVerification, o.token, now)
			if err != nil {
				return err
			}
			rec, err := verifyAddress(tx, link.PersonID, link.Data[linkAddress], now)
			if err != nil {
				return err
			}
			e := Actor{ID: link.PersonID, Name: rec.Username}.did(ev[0], link.PersonID, "e-mail address verified")
			e.Partition = rec.partition()
			return s.Events.Append(tx, e)
		})
	}
	if err != nil {
		s.failLink(w, r, linkVerification, "", err)
		return
	}
	s.jar.Clear(w, linkCookieOf(linkVerification))
	s.redirect(w, r, verifiedPath)
}

// verifyAddress marks an address of a person as verified, or returns errNoLink when it is not theirs any more.
func verifyAddress(tx storage.Tx, id, address string, now time.Time) (personRecord, error) {
	rec, err := persons.Get(tx, id)
	if err != nil {
		return rec, err
	}
	prof, err := readProfile(tx, id, &rec)
	if err != nil {
		return rec, err
	}
	prof.Profile = prof.Profile.clone()
	i := slices.IndexFunc(prof.Profile.EmailAddresses, func(e EmailAddress) bool { return foldEmail(e.Value) == foldEmail(address) })
	if i < 0 {
		return rec, errNoLink
	}
	prof.Profile.EmailAddresses[i].Verified = true
	rec.take(&prof)
	rec.UpdatedAt = now
	if err := persons.Put(tx, id, rec, time.Time{}); err != nil {
		return rec, err
	}
	return rec, profiles.Put(tx, id, prof, time.Time{})
}

// showVerified serves GET /verify/done.
func (s *Service) showVerified(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, verifiedPath, always); ok {
		s.formPage(w, r, a, "", http.StatusOK, page.Form{Key: "verified", Next: defaultReturn})
	}
}
