package person

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Details is everything that is stored of a person, except the password.
type Details struct {
	ID          string
	Username    string
	Partition   string
	State       State
	Groups      []string
	Profile     Profile
	Directory   Directory
	HasPassword bool
	CreatedAt   time.Time
	UpdatedAt   time.Time
	LeftOut     []LeftOut // of what another system has told, by the change that returns the Details
}

func (r *Record) details(id string, p *ProfileRecord) Details {
	return Details{
		ID: id, Username: r.Username, Partition: r.PartitionName(), State: r.State, Groups: slices.Clone(r.Groups),
		Profile: p.Profile, Directory: p.Directory, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Details returns everything that is stored of the person of an id, or ErrNoPerson. A removed person is unknown.
func (s *Service) Details(tx storage.Tx, personID string) (Details, error) {
	rec, err := Records.Get(tx, personID)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.State == Removed {
		return Details{}, ErrNoPerson
	}
	if err != nil {
		return Details{}, err
	}
	p, err := ReadProfile(tx, personID, &rec)
	if err != nil {
		return Details{}, err
	}
	d := rec.details(personID, &p)
	d.HasPassword, err = Passwords.Has(tx, personID)
	return d, err
}

// ManyDetails returns what is stored of persons, in the order of the ids, in one read. HasPassword is not filled in.
// Unknown and removed persons are left out.
func (s *Service) ManyDetails(tx storage.Tx, ids []string) ([]Details, error) {
	keys := make([][]byte, 0, 2*len(ids))
	for _, id := range ids {
		keys = append(keys, Records.Key(id), Profiles.Key(id))
	}
	raw, err := tx.GetMany(keys...)
	if err != nil {
		return nil, err
	}
	out := make([]Details, 0, len(ids))
	for i, id := range ids {
		if raw[2*i] == nil {
			continue
		}
		rec, err := Records.Decode(raw[2*i])
		if err != nil {
			return nil, err
		}
		var p ProfileRecord
		if raw[2*i+1] != nil {
			if p, err = Profiles.Decode(raw[2*i+1]); err != nil {
				return nil, err
			}
		}
		if rec.State != Removed {
			p.overlay(&rec)
			out = append(out, rec.details(id, &p))
		}
	}
	return out, nil
}

// Profile returns the profile of a person, or ErrNoPerson.
func (s *Service) Profile(tx storage.Tx, personID string) (Profile, error) {
	d, err := s.Details(tx, personID)
	if d.Profile.EmailAddresses == nil {
		d.Profile.EmailAddresses = []EmailAddress{} // the document requires the member
	}
	return d.Profile, err
}
