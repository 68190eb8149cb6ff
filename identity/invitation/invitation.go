package invitation

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	linkInvitation challenge.LinkKind = "invitation"

	invitationLife  = 7 * 24 * time.Hour
	invitationEvery = time.Minute // between two links for one person
	invitationTries = 5           // answers to the checks of one invitation, of all kinds together
)

// NewInvitation is the request for an invitation.
type NewInvitation struct {
	// Email is the recipient of the link, and the person's address.
	Email string `json:"email" rest:"required"`
	// Username. Default: the address
	Username   string `json:"username,omitempty"`
	Name       string `json:"name,omitempty"`
	GivenName  string `json:"given_name,omitempty"`
	FamilyName string `json:"family_name,omitempty"`
	// PhoneNumbers and DateOfBirth can be part of the check before the invitation is accepted.
	PhoneNumbers []string `json:"phone_numbers,omitempty"`
	DateOfBirth  string   `json:"date_of_birth,omitempty"` // 2006-01-02
	Groups       []string `json:"groups,omitempty"`
	Locale       string   `json:"locale,omitempty"` // BCP 47
	// Partition is the partition in which the username is unique. Default: the default one
	Partition string `json:"partition,omitempty"`
}

// Invitation is an invitation that the person has not accepted yet.
type Invitation struct {
	PersonID  string    `json:"person_id" rest:"required"`
	Username  string    `json:"username" rest:"required"`
	Email     string    `json:"email" rest:"required"`
	ExpiresAt time.Time `json:"expires_at" rest:"required"`
	// Sent says that the link was sent to the address. Otherwise Link must be handed over; it is shown only once.
	Sent bool   `json:"sent" rest:"required"`
	Link string `json:"link,omitempty"`
}

// person returns the person that the invitation creates.
func (n *NewInvitation) person() person.NewPerson {
	p := person.NewPerson{
		Username: n.Username, Email: n.Email, EmailVerified: new(bool), Name: n.Name, GivenName: n.GivenName,
		FamilyName: n.FamilyName, Groups: n.Groups, Locale: n.Locale, Partition: n.Partition,
		Profile: &person.Profile{DateOfBirth: n.DateOfBirth},
	}
	if p.Username == "" {
		p.Username = n.Email
	}
	for i, v := range n.PhoneNumbers {
		p.Profile.PhoneNumbers = append(p.Profile.PhoneNumbers, person.PhoneNumber{Value: v, Primary: i == 0})
	}
	return p
}

// Invite creates an invited person and sends the link. Errors: person.ErrUsernameTaken, *person.ValidationError,
// ErrInvitationsOff.
func (s *Service) Invite(ctx context.Context, n NewInvitation, by audit.Actor) (out Invitation, err error) {
	if !person.IsEmail(n.Email) {
		return out, &person.ValidationError{Field: "email", Problem: "is not an e-mail address"}
	}
	p, err := s.deps.Person.Place(n.person())
	if err == nil {
		err = s.deps.Person.CheckChosen(p.Username)
	}
	if err != nil {
		return out, err
	}
	rec, prof, folded, err := p.Records()
	if err != nil {
		return out, err
	}
	id, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return out, err
	}
	ev, err := s.deps.Person.NewEvents(by.Origin, person.EventCreated, personInvited)
	if err != nil {
		return out, err
	}
	now := s.deps.Now()
	rec.State, rec.CreatedAt, rec.UpdatedAt = person.Invited, now, now
	prof.MarkNew(by)
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := s.deps.Person.CheckConfigured(tx, &prof, nil, now); err != nil {
			return err
		}
		if err := person.RefuseOthers(tx, by, "", &rec, &prof.Profile, nil, ""); err != nil {
			return err
		}
		if err := s.deps.Person.SpareNew(by, &rec); err != nil {
			return err
		}
		if err := person.CreatePerson(tx, id.String(), rec, &prof, folded); err != nil {
			return err
		}
		if out, err = s.sendInvitation(tx, id.String(), &rec, &prof.Profile, n.Email, by, now); err != nil {
			return err
		}
		return s.appendEvents(tx, id.String(), &rec, by, "", ev...)
	})
	return out, err
}

// appendEvents records what happened to an invited person.
func (s *Service) appendEvents(
	tx storage.Tx, id string, rec *person.Record, by audit.Actor, reason string, happened ...audit.Event,
) error {
	for _, e := range happened {
		e = by.Fill(e, id, reason)
		e.Partition = rec.PartitionName()
		if err := s.deps.Events.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// sendInvitation makes a new link, which ends the previous one, and sends it if invitations are sent.
func (s *Service) sendInvitation(
	tx storage.Tx, id string, rec *person.Record, prof *person.Profile, email string, by audit.Actor, now time.Time,
) (out Invitation, err error) {
	u, err := s.deps.Units(tx)
	if err != nil {
		return out, err
	}
	if !u.Features.AcceptingInvitationEnabled {
		return out, ErrInvitationsOff
	}
	path, err := s.deps.Proof.NewLink(tx, linkInvitation, id, map[string]string{challenge.LinkTo: email}, invitationLife, now)
	if err != nil {
		return out, err
	}
	on, err := s.deps.Person.Switches(tx)
	if err != nil {
		return out, err
	}
	out = Invitation{
		PersonID: id, Username: rec.Username, Email: email, ExpiresAt: now.Add(invitationLife),
		Sent: on.AccountInvitation && email != "",
	}
	inv := invitationRecord{Email: email, Sent: out.Sent, SentAt: now, ExpiresAt: out.ExpiresAt}
	if !out.Sent {
		inv.HandedTo = by.Untrusted()
	}
	if err := invitations.Put(tx, id, inv, inv.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return out, err
	}
	if !out.Sent {
		out.Link = s.deps.Issuer + path
		return out, nil
	}
	n := person.Recipient{ID: id, Record: rec, Profile: prof}.Notice(notify.AccountInvitation, now)
	n.To, n.Link = email, path
	return out, s.deps.Person.SendNotice(tx, n)
}

// InviteAgain sends an invited person (username or id) a new link, which ends the previous one and its count of
// answers. Errors: person.ErrNoPerson, *person.StateError, *challenge.TooSoonError, ErrInvitationsOff.
func (s *Service) InviteAgain(ctx context.Context, usernameOrID string, by audit.Actor) (out Invitation, err error) {
	now := s.deps.Now()
	err = s.deps.Person.Change(ctx, usernameOrID, by, personInvited, func(tx storage.Tx, id string, rec *person.Record) (bool, error) {
		if rec.State == person.Removed {
			return false, person.ErrNoPerson
		}
		if rec.State != person.Invited {
			return false, &person.StateError{State: rec.State}
		}
		inv, err := invitations.Get(tx, id)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return false, err
		}
		if wait := inv.SentAt.Add(invitationEvery).Sub(now); wait > 0 {
			return false, &challenge.TooSoonError{Wait: wait}
		}
		t, err := s.deps.Proof.LinkReached(tx, id, rec)
		if err != nil {
			return false, err
		}
		// Not to the previous address: an administrator can have corrected it meanwhile.
		out, err = s.sendInvitation(tx, id, rec, t.Profile, t.Address(), by, now)
		return true, err
	})
	return out, err
}

// WithdrawInvitation removes an invited person (id) who has not accepted yet. Errors: person.ErrNoPerson,
// *person.StateError.
func (s *Service) WithdrawInvitation(ctx context.Context, id string, by audit.Actor) error {
	return s.deps.Person.RemovePerson(ctx, id, by, func(_ storage.Tx, d *person.Details) error {
		if d.State != person.Invited {
			return &person.StateError{State: d.State}
		}
		return nil
	})
}

// forgetInvitation removes the invitation of a person who is removed. It is a hook of the removal.
func forgetInvitation(tx storage.Tx, person string) error { return invitations.Delete(tx, person) }
