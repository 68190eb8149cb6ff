package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// handedOver is the key in the data of a link that an administrator hands over: it works although people cannot ask
	// for one themselves.
	handedOver = "handed"
	// handedBy is the key of who has got the link to hand it over, if they are audit.Actor.Untrusted and the person has no
	// role in the admin console.
	handedBy = "handed_by"
	// leadsTo is the key of the path where the browser goes after the new password. Absent: to the sign-in.
	leadsTo    = "leads_to"
	handedLife = 24 * time.Hour
)

// ErrNoReset says that there is no link for a new password: no one signs in by password, or the person cannot.
var ErrNoReset = errors.New("the person cannot get a new password by a link")

// HandedReset is a link for a new password that an administrator has asked for.
type HandedReset struct {
	Username  string    `json:"username"`
	ExpiresAt time.Time `json:"expires_at"`
	// Sent says that it went to the person's address. Otherwise Link must be handed over; it is shown only once.
	Sent bool   `json:"sent"`
	Link string `json:"link,omitempty"`
}

// HandReset makes a link for a new password of a person (username or id), for an administrator: it is sent to the
// person's address, or with send false returned to be handed over. It ends the link of before. Errors:
// person.ErrNoPerson, ErrNoReset.
func (s *Service) HandReset(ctx context.Context, usernameOrID string, send bool, by audit.Actor) (out HandedReset, err error) {
	return s.handReset(ctx, usernameOrID, send, "", by)
}

// HandFirst is HandReset for a link that is returned and that leads, after the new password, to a path of this server.
func (s *Service) HandFirst(ctx context.Context, usernameOrID, path string, by audit.Actor) (out HandedReset, err error) {
	return s.handReset(ctx, usernameOrID, false, path, by)
}

func (s *Service) handReset(ctx context.Context, usernameOrID string, send bool, next string, by audit.Actor) (out HandedReset, err error) {
	ev, err := s.deps.Person.NewEvents(by.Origin, passwordResetRequested)
	if err != nil {
		return out, err
	}
	now := s.deps.Now()
	life := resetLife
	if !send {
		life = handedLife
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.deps.Person.Find(tx, usernameOrID)
		if err != nil {
			return err
		}
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		if !u.PasswordLogin() || rec.State != person.Active && rec.State != person.Inactive {
			return ErrNoReset
		}
		t, err := s.deps.Proof.LinkReached(tx, id, &rec)
		if err != nil {
			return err
		}
		data := map[string]string{handedOver: "yes", webflow.LinkFlow: ""}
		if next != "" {
			data[leadsTo] = next
		}
		if who := by.Untrusted(); who != "" && !send && !s.deps.Person.HasRole(&rec) {
			data[handedBy] = who
		}
		if send {
			if data[challenge.LinkTo] = t.Address(); t.Address() == "" || s.deps.Notify == nil {
				return ErrNoReset
			}
		}
		path, err := s.deps.Proof.NewLink(tx, linkReset, id, data, life, now)
		if err != nil {
			return err
		}
		out = HandedReset{Username: rec.Username, ExpiresAt: now.Add(life), Sent: send}
		if send {
			n := t.Notice(notify.ResetLink, now)
			n.Link = path
			err = s.deps.Notify.Send(tx, n)
		} else {
			out.Link = s.deps.Issuer + path
		}
		if err != nil {
			return err
		}
		e := by.Fill(ev[0], id, "by an administrator")
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
	return out, err
}
