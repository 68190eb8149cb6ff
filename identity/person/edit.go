package person

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Details is everything that is kept of a person, but for the password.
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
}

func (r *Record) details(id string, p *ProfileRecord) Details {
	return Details{
		ID: id, Username: r.Username, Partition: r.PartitionName(), State: r.State, Groups: slices.Clone(r.Groups), Profile: p.Profile, Directory: p.Directory,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Profile returns what is known of a person, or ErrNoPerson.
func (s *Service) Profile(tx storage.Tx, personID string) (Profile, error) {
	d, err := s.Details(tx, personID)
	if d.Profile.EmailAddresses == nil {
		d.Profile.EmailAddresses = []EmailAddress{} // the document demands the member
	}
	return d.Profile, err
}

// Details returns everything that is kept of the person of an id, or ErrNoPerson. Whoever was removed is no person.
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

// Edit says who changes a person and how far they are believed.
type Edit struct {
	By event.Actor
	// Password is the new one, by the policy; PasswordHash one that was hashed elsewhere. Neither: it stays.
	Password     secret.String
	PasswordHash string
	// Verified says that what the change calls verified is so. Otherwise nothing becomes verified by it.
	Verified bool
}

// UpdatePerson lets fn change what is kept of a person (id): the username, the state, the groups, the profile and the directory's part.
// An error of fn undoes all and is returned. What ends by the change ends at once. It answers with the person as it is then, and writes
// nothing when nothing has changed. ErrNoPerson, ErrUsernameTaken, *ValidationError, secret.ErrBusy.
func (s *Service) UpdatePerson(ctx context.Context, id string, e Edit, fn func(tx storage.Tx, d *Details) error) (after Details, err error) {
	phc, err := s.firstPassword(ctx, NewPerson{Password: e.Password, PasswordHash: e.PasswordHash})
	if err != nil {
		return after, err
	}
	u, err := s.NewUpdate(id, e)
	if err != nil {
		return after, err
	}
	u.phc = phc
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		u.Tx = tx
		after, err = u.Run(fn)
		return err
	})
	return after, err
}

// NewUpdate begins a change of a person, but for the transaction: run may be called once it has one.
func (s *Service) NewUpdate(id string, e Edit) (update, error) {
	ev, err := s.NewEvents(e.By.Origin, EventUpdated, EventActivated, personBlocked, personInactive, passwordChanged)
	return update{Service: s, id: id, by: e, now: s.now(), written: ev}, err
}

// update is one change of a person in its transaction.
type update struct {
	*Service

	Tx      storage.Tx
	id      string
	by      Edit
	now     time.Time
	phc     string
	written []event.Event // updated, activated, blocked, inactive, password
}

func (u *update) Run(fn func(storage.Tx, *Details) error) (Details, error) {
	was, err := Records.Get(u.Tx, u.id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && was.State == Removed {
		return Details{}, ErrNoPerson
	}
	if err != nil {
		return Details{}, err
	}
	old, err := ReadProfile(u.Tx, u.id, &was)
	if err != nil {
		return Details{}, err
	}
	d := was.details(u.id, &old)
	d.Profile = d.Profile.Clone()
	if err := fn(u.Tx, &d); err != nil {
		return Details{}, err
	}
	rec, prof, err := u.settle(&was, &old, &d)
	if err != nil {
		return Details{}, err
	}
	changes := u.changes(&was, &rec, &old, &prof)
	if len(changes) > 0 {
		if err := u.write(&was, &rec, &old, &prof, changes); err != nil {
			return Details{}, err
		}
	}
	d = rec.details(u.id, &prof)
	d.HasPassword, err = Passwords.Has(u.Tx, u.id)
	return d, err
}

// Clone is a copy whose lists may be changed.
func (p Profile) Clone() Profile {
	p.EmailAddresses, p.PhoneNumbers = slices.Clone(p.EmailAddresses), slices.Clone(p.PhoneNumbers)
	p.Addresses, p.CustomAttributes = slices.Clone(p.Addresses), slices.Clone(p.CustomAttributes)
	return p
}

// settle checks what the person is to be like and returns the records of it.
func (u *update) settle(was *Record, old *ProfileRecord, d *Details) (Record, ProfileRecord, error) {
	rec, prof := *was, ProfileRecord{Profile: d.Profile, Directory: d.Directory}
	rec.Username, rec.State, rec.Groups = strings.TrimSpace(d.Username), d.State, d.Groups
	// A name that was made of its parts follows them.
	name, before := &prof.Profile.Name, old.Profile.Name
	if name.DisplayName == before.DisplayName && before.DisplayName == strings.TrimSpace(before.FirstName+" "+before.LastName) {
		name.DisplayName = ""
	}
	if !u.by.Verified {
		prof.Profile.keepVerified(&old.Profile)
		if rec.Username != was.Username {
			prof.Profile.vouch(rec.Username)
		}
	}
	if err := prof.Check(); err != nil {
		return rec, prof, err
	}
	if err := u.CheckConfigured(u.Tx, &prof, old); err != nil {
		return rec, prof, err
	}
	if err := checkGroups(rec.Groups); err != nil {
		return rec, prof, err
	}
	if rec.State != was.State && !slices.Contains([]State{Active, Blocked, Inactive}, rec.State) {
		return rec, prof, &ValidationError{"state", "is not one that a person can be set to"}
	}
	if rec.Username != was.Username && (IsID(rec.Username) || u.cfg.Partitions.On && strings.Contains(rec.Username, `\`)) {
		return rec, prof, &ValidationError{"username", "must not look like an id or name a partition"}
	}
	rec.Take(&prof)
	return rec, prof, nil
}

func sameProfile(a, b *Profile) bool { return reflect.DeepEqual(a, b) }

// sameDetails tells whether two states of a person are equal.
func sameDetails(a, b *Details) bool {
	return slices.Equal(a.Groups, b.Groups) && reflect.DeepEqual(a.Profile, b.Profile) && reflect.DeepEqual(a.Directory, b.Directory)
}

// changes names what differs, for the event.
func (u *update) changes(was, rec *Record, old, prof *ProfileRecord) (out []string) {
	for _, c := range []struct {
		name    string
		differs bool
	}{
		{"username", was.Username != rec.Username},
		{"state", was.State != rec.State},
		{"groups", !slices.Equal(was.Groups, rec.Groups)},
		{"profile", !reflect.DeepEqual(old.Profile, prof.Profile) || !reflect.DeepEqual(old.Directory, prof.Directory)},
		{"password", u.phc != ""},
	} {
		if c.differs {
			out = append(out, c.name)
		}
	}
	return out
}

func (u *update) write(was, rec *Record, old, prof *ProfileRecord, changes []string) error {
	rec.UpdatedAt = u.now
	if was.State != rec.State || u.phc != "" {
		rec.Epoch++ // everything given before ends
		if err := u.Watcher().SessionsEnded(u.Tx, u.id, ""); err != nil {
			return err
		}
	}
	if err := u.tellOf(was, rec, old, prof); err != nil {
		return err
	}
	if err := u.changed(u.Tx, u.id, &old.Profile, &prof.Profile); err != nil {
		return err
	}
	if err := u.rename(was, rec); err != nil {
		return err
	}
	if u.phc != "" {
		if err := Passwords.Put(u.Tx, u.id, PasswordRecord{PHC: u.phc, ChangedAt: u.now}, time.Time{}); err != nil {
			return err
		}
	}
	if err := Reindex(u.Tx, u.id, PlacesOf(was, old), PlacesOf(rec, prof), u.now); err != nil {
		return err
	}
	if err := Records.Put(u.Tx, u.id, *rec, time.Time{}); err != nil {
		return err
	}
	if err := Profiles.Put(u.Tx, u.id, *prof, time.Time{}); err != nil {
		return err
	}
	// What has an event of its own is not one of the changes: each thing that happens to a person is one event.
	var ev []event.Event
	changes = slices.DeleteFunc(changes, func(name string) bool { return name == "state" || name == "password" })
	if len(changes) > 0 {
		ev = append(ev, u.written[0])
	}
	if was.State != rec.State {
		ev = append(ev, u.written[map[State]int{Active: 1, Blocked: 2, Inactive: 3}[rec.State]])
	}
	if u.phc != "" {
		ev = append(ev, u.written[4])
	}
	for _, e := range ev {
		reason := ""
		if e.Type == EventUpdated.Type {
			reason = strings.Join(changes, ", ")
		}
		e = u.by.By.Fill(e, u.id, reason)
		e.Partition = rec.PartitionName()
		if err := u.events.Append(u.Tx, e); err != nil {
			return err
		}
	}
	return nil
}

// tellOf tells the person what has changed.
func (u *update) tellOf(was, rec *Record, old, prof *ProfileRecord) error {
	if was.State != rec.State && rec.State == Blocked {
		if err := u.tellDone(u.Tx, u.id, was, &old.Profile, personBlocked, u.now); err != nil {
			return err
		}
	}
	return u.TellChanges(u.Tx, u.id, was, &old.Profile, &prof.Profile, u.phc != "", u.now)
}

// rename moves the username where it changes. Another spelling of the same name is the same key.
func (u *update) rename(was, rec *Record) error {
	if was.Username == rec.Username {
		return nil
	}
	from, err := Fold(was.Username)
	if err != nil {
		return err
	}
	to, err := Fold(rec.Username)
	if err != nil || from == to {
		return err
	}
	if err := tally(u.Tx, rec.PartitionName(), 0); err != nil {
		return err
	}
	if err := deleteName(u.Tx, rec.PartitionName(), from); err != nil {
		return err
	}
	return createName(u.Tx, rec.PartitionName(), to, u.id)
}
