package invitation

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// invitation is an invitation whose link a browser has opened.
type invitation struct {
	token string // of the link
	id    string // of the person
	rec   person.Record
	prof  person.ProfileRecord
	inv   invitationRecord
	units *settings.Units

	// Of a request for its pages:
	browser  string // hash of the browser's cookie
	form     string // that the forms of its pages are bound to
	codeSent bool   // a code was sent to this browser and can be typed
}

// readInvitation returns the invitation of a link. challenge.ErrNoLink: the link is invalid or has ended.
func (s *Service) readInvitation(tx storage.Tx, token string, now time.Time) (*invitation, error) {
	link, err := s.deps.Proof.ReadLink(tx, linkInvitation, token, now)
	if err != nil {
		return nil, err
	}
	u, err := s.deps.Units(tx)
	if err != nil {
		return nil, err
	}
	return loadInvitation(tx, u, token, link.PersonID)
}

// loadInvitation is readInvitation for a link that is valid.
func loadInvitation(tx storage.Tx, u *settings.Units, token, id string) (x *invitation, err error) {
	x = &invitation{token: token, id: id, units: u}
	if x.rec, err = person.Records.Get(tx, id); err == nil {
		x.inv, err = invitations.Get(tx, id)
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, challenge.ErrNoLink
	case err != nil:
		return nil, err
	case x.rec.State != person.Invited, !u.Features.AcceptingInvitationEnabled:
		return nil, challenge.ErrNoLink
	}
	x.prof, err = person.ReadProfile(tx, id, &x.rec)
	return x, err
}

// openInvitation returns the invitation whose link this browser has opened.
func (s *Service) openInvitation(q *webflow.Request) (x *invitation, err error) {
	now, browser := s.deps.Now(), challenge.Hashed(s.deps.Federation.BrowserID(q.Request))
	o, err := s.deps.Front.LinkIn(q, linkInvitation, "/sign-in", func(tx storage.Tx, o *challenge.OpenLink) (err error) {
		if x, err = loadInvitation(tx, q.Settings, o.Token, o.Record.PersonID); err != nil {
			return err
		}
		if to, _ := x.number(); to != "" && browser != "" {
			x.codeSent, err = s.deps.Proof.CodeWaits(tx, x.smsPurpose(browser), now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	token, err := s.deps.Jar.Browser(q.W, q.Request, s.deps.Front.NewID)
	if err != nil {
		return nil, err
	}
	if err := webflow.CheckOpen(q.Settings); err != nil {
		return nil, err
	}
	if x.browser, x.form = challenge.Hashed(token), o.Form(); x.isLocked(x.browser) {
		return nil, s.invitationError(q, errLocked)
	}
	return x, nil
}

// invitationError is the answer for an invitation that cannot continue.
func (s *Service) invitationError(q *webflow.Request, err error) error {
	if errors.Is(err, errLocked) {
		return &webflow.Answer{Status: http.StatusForbidden, Key: "error.invitation_locked"}
	}
	return s.deps.Front.LinkError(q, linkInvitation, "/sign-in", err)
}

// locales is the language that the person prefers, if it is known.
func (x *invitation) locales() []string { return person.TheOnly(x.rec.Locale) }

// setBy returns the untrusted actor who has invited the person, or was shown the link, or "".
func (x *invitation) setBy() string {
	return cmp.Or(x.inv.HandedTo, person.Contact{Kind: person.ContactEmail, Value: x.inv.Email}.SetBy(&x.prof.Profile))
}

// actor returns the invited person as the cause of an event.
func (x *invitation) actor(from audit.Origin) audit.Actor {
	return audit.Actor{ID: x.id, Name: x.rec.Username, Origin: from}
}
