package identity

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	invitationLife  = 7 * 24 * time.Hour
	invitationEvery = time.Minute // a new link is made at most so often
	invitationTries = 5           // wrong answers to what an invited person is asked, of every kind together
)

// NewInvitation is what is known of somebody who is invited.
type NewInvitation struct {
	// Email is where the link goes, and the person's address.
	Email string `json:"email" rest:"required"`
	// Username. Default: the address
	Username   string `json:"username,omitempty"`
	Name       string `json:"name,omitempty"`
	GivenName  string `json:"given_name,omitempty"`
	FamilyName string `json:"family_name,omitempty"`
	// PhoneNumbers and DateOfBirth are what the person may have to show.
	PhoneNumbers []string `json:"phone_numbers,omitempty"`
	DateOfBirth  string   `json:"date_of_birth,omitempty"` // 2006-01-02
	Groups       []string `json:"groups,omitempty"`
	Locale       string   `json:"locale,omitempty"` // BCP 47
	// Partition is where the username is unique. Default: the default one
	Partition string `json:"partition,omitempty"`
}

// Invitation is an invitation that waits for the person.
type Invitation struct {
	PersonID  string    `json:"person_id" rest:"required"`
	Username  string    `json:"username" rest:"required"`
	Email     string    `json:"email" rest:"required"`
	ExpiresAt time.Time `json:"expires_at" rest:"required"`
	// Sent says that the link is on its way to the address. Otherwise Link has to be handed over, and is shown this once.
	Sent bool   `json:"sent" rest:"required"`
	Link string `json:"link,omitempty"`
}

// person is the person that an invited one is to be.
func (n *NewInvitation) person() NewPerson {
	p := NewPerson{
		Username: n.Username, Email: n.Email, EmailVerified: new(bool), Name: n.Name, GivenName: n.GivenName, FamilyName: n.FamilyName, Groups: n.Groups,
		Locale: n.Locale, Partition: n.Partition, Profile: &Profile{DateOfBirth: n.DateOfBirth},
	}
	if p.Username == "" {
		p.Username = n.Email
	}
	for i, v := range n.PhoneNumbers {
		p.Profile.PhoneNumbers = append(p.Profile.PhoneNumbers, PhoneNumber{Value: v, Primary: i == 0})
	}
	return p
}

// Invite makes a person who is invited and sends the link. Errors: ErrUsernameTaken, *ValidationError, ErrInvitationsOff.
func (s *Service) Invite(ctx context.Context, n NewInvitation, by Actor) (out Invitation, err error) {
	if !isEmail(n.Email) {
		return out, &ValidationError{"email", "is not an e-mail address"}
	}
	p, err := s.place(n.person())
	if err != nil {
		return out, err
	}
	rec, prof, folded, err := p.records()
	if err != nil {
		return out, err
	}
	id, err := uuid.NewRandomFromReader(s.Random)
	if err != nil {
		return out, err
	}
	ev, err := s.newEvents(by.Origin, personCreated, personInvited)
	if err != nil {
		return out, err
	}
	now := s.Now()
	rec.State, rec.CreatedAt, rec.UpdatedAt = Invited, now, now
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if err := s.checkConfigured(tx, &prof, nil); err != nil {
			return err
		}
		if err := createPerson(tx, id.String(), rec, &prof, folded); err != nil {
			return err
		}
		if out, err = s.sendInvitation(tx, id.String(), &rec, &prof.Profile, n.Email, now); err != nil {
			return err
		}
		for _, e := range ev {
			e = by.did(e, id.String(), "")
			e.Partition = rec.partition()
			if err := s.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// sendInvitation makes a new link, which ends the one before, and sends it where invitations are sent.
func (s *Service) sendInvitation(tx storage.Tx, id string, rec *personRecord, prof *Profile, email string, now time.Time) (out Invitation, err error) {
	u, err := s.Units(tx)
	if err != nil {
		return out, err
	}
	if !u.Features.AcceptingInvitationEnabled {
		return out, ErrInvitationsOff
	}
	path, err := s.newLink(tx, linkInvitation, id, map[string]string{linkTo: email}, invitationLife, now)
	if err != nil {
		return out, err
	}
	on, err := s.switches(tx)
	if err != nil {
		return out, err
	}
	out = Invitation{PersonID: id, Username: rec.Username, Email: email, ExpiresAt: now.Add(invitationLife), Sent: on.AccountInvitation && email != ""}
	inv := invitationRecord{Email: email, Sent: out.Sent, SentAt: now, ExpiresAt: out.ExpiresAt}
	if err := invitations.Put(tx, id, inv, inv.ExpiresAt.Add(collectAfter)); err != nil {
		return out, err
	}
	if !out.Sent {
		out.Link = s.cfg.Issuer + path
		return out, nil
	}
	n := told{id: id, rec: rec, profile: prof}.notice(notify.AccountInvitation, now)
	n.To, n.Link = email, path
	return out, s.send(tx, n)
}

// InviteAgain sends an invited person (username or id) a new link in place of the one before, which is worth nothing any more, and takes tries
// anew. Errors: ErrNoPerson, *StateError, *TooSoonError, ErrInvitationsOff.
func (s *Service) InviteAgain(ctx context.Context, usernameOrID string, by Actor) (out Invitation, err error) {
	now := s.Now()
	err = s.change(ctx, usernameOrID, by, personInvited, func(tx storage.Tx, id string, rec *personRecord) (bool, error) {
		if rec.State == Removed {
			return false, ErrNoPerson
		}
		if rec.State != Invited {
			return false, &StateError{rec.State}
		}
		inv, err := invitations.Get(tx, id)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return false, err
		}
		if wait := inv.SentAt.Add(invitationEvery).Sub(now); wait > 0 {
			return false, &TooSoonError{wait}
		}
		t, err := s.reached(tx, id, rec)
		if err != nil {
			return false, err
		}
		// Not where the one before went: an address that was mistyped has been mended since.
		out, err = s.sendInvitation(tx, id, rec, t.profile, t.address(), now)
		return true, err
	})
	return out, err
}

// WithdrawInvitation removes a person (id) who is invited and has not come yet. Errors: ErrNoPerson, *StateError.
func (s *Service) WithdrawInvitation(ctx context.Context, id string, by Actor) error {
	return s.RemovePerson(ctx, id, by, func(_ storage.Tx, d *Details) error {
		if d.State != Invited {
			return &StateError{d.State}
		}
		return nil
	})
}

// forgetInvitation removes the invitation of a person who is removed. It is a hook of the removal.
func forgetInvitation(tx storage.Tx, person string) error { return invitations.Delete(tx, person) }
