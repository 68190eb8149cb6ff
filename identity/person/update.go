package person

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Edit says who changes a person, and how far the change is trusted.
type Edit struct {
	By audit.Actor
	// Password is a new password, which the policy must allow. PasswordHash was made by another system. Neither: the
	// password stays.
	Password     secret.String
	PasswordHash string
	// Names are those of the person, which Password must not repeat. nil: UpdatePerson reads them.
	Names []string
	// Verified says that the change may mark addresses and numbers as verified. Otherwise it verifies none.
	Verified bool
	// Confirmed is an address that By has entered, even if the person had it before.
	Confirmed string
	// Foreign says that the data comes from another system: values that cannot be stored are left out, as in a NewPerson.
	// The change adds to LeftOut of the Details what it has left out itself.
	Foreign bool
	// Complete refuses a change that removes a detail which the settings require of new people.
	Complete bool
}

// UpdatePerson lets fn change the person with an id, in one transaction, and returns the person after the change. An
// error of fn undoes everything and is returned. Nothing is written if nothing changes. Sessions and tokens that the
// change ends end at once. Errors: ErrNoPerson, ErrUsernameTaken, ErrSpared, *ValidationError, secret.ErrBusy.
func (s *Service) UpdatePerson(ctx context.Context, id string, e Edit, fn func(tx storage.Tx, d *Details) error) (after Details,
	err error,
) {
	if !e.Password.IsZero() && e.Names == nil {
		if e.Names, err = s.namesOf(ctx, id); err != nil {
			return after, err
		}
	}
	u, err := s.NewUpdate(ctx, e)
	if err != nil {
		return after, err
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		after, err = u.Apply(tx, id, fn)
		return err
	})
	return after, err
}

// Update is a change of a person. It is prepared before a transaction and applied in it.
type Update struct {
	// Edit can be completed in the transaction if the actor is known only there.
	Edit

	s      *Service
	now    time.Time
	phc    string // hash of a new password. Empty: it stays
	events map[audit.Type]audit.Event
}

// NewUpdate prepares a change of a person. Errors: *ValidationError, secret.ErrBusy.
func (s *Service) NewUpdate(ctx context.Context, e Edit) (*Update, error) {
	phc, err := s.firstPassword(ctx, NewPerson{Password: e.Password, PasswordHash: e.PasswordHash}, e.Names...)
	if err != nil {
		return nil, err
	}
	kinds := []audit.Type{EventUpdated, EventActivated, personBlocked, personInactive, passwordChanged}
	list, err := s.NewEvents(e.By.Origin, kinds...)
	if err != nil {
		return nil, err
	}
	u := &Update{Edit: e, s: s, now: s.deps.Now(), phc: phc, events: map[audit.Type]audit.Event{}}
	for i, k := range kinds {
		u.events[k] = list[i]
	}
	return u, nil
}

// Apply is UpdatePerson in a transaction of the caller: the same checks, events, notices and hooks.
func (u *Update) Apply(tx storage.Tx, id string, fn func(tx storage.Tx, d *Details) error) (Details, error) {
	return (&updateTx{Update: u, tx: tx, id: id}).apply(fn)
}

// updateTx is an Update in its transaction.
type updateTx struct {
	*Update

	tx   storage.Tx
	id   string
	left []LeftOut
}

func (u *updateTx) apply(fn func(storage.Tx, *Details) error) (Details, error) {
	was, err := Records.Get(u.tx, u.id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && was.State == Removed {
		return Details{}, ErrNoPerson
	}
	if err != nil {
		return Details{}, err
	}
	old, err := ReadProfile(u.tx, u.id, &was)
	if err != nil {
		return Details{}, err
	}
	d := was.details(u.id, &old)
	d.Profile = d.Profile.Clone()
	if err := fn(u.tx, &d); err != nil {
		return Details{}, err
	}
	rec, prof, err := u.settle(&was, &old, &d)
	if err != nil {
		return Details{}, err
	}
	if changes := u.changes(&was, &rec, &old, &prof); len(changes) > 0 {
		if err := u.write(&was, &rec, &old, &prof, changes); err != nil {
			return Details{}, err
		}
	}
	d = rec.details(u.id, &prof)
	d.LeftOut = u.left
	d.HasPassword, err = Passwords.Has(u.tx, u.id)
	return d, err
}

// settle checks the person after the change and returns the records.
func (u *updateTx) settle(was *Record, old *ProfileRecord, d *Details) (Record, ProfileRecord, error) {
	rec, prof := *was, ProfileRecord{Profile: d.Profile, Directory: d.Directory}
	rec.Username, rec.Groups = strings.TrimSpace(d.Username), d.Groups
	if d.State != was.State {
		if d.State == Active && was.State == Invited {
			return rec, prof, &ValidationError{"state", "must stay INVITED: only the person accepts an invitation"}
		}
		rec.moveTo(d.State)
	}
	if u.Foreign {
		units, err := u.s.deps.Units(u.tx)
		if err != nil {
			return rec, prof, err
		}
		clean := sieve{left: slices.Clone(d.LeftOut)}
		clean.profile(&prof.Profile, units, &old.Profile, u.now)
		clean.directory(&prof.Directory)
		clean.groups(&rec.Groups)
		u.left = clean.left
	}
	// A display name that consists of first and last name follows them.
	name, before := &prof.Profile.Name, old.Profile.Name
	if name.DisplayName == before.DisplayName && before.DisplayName == strings.TrimSpace(before.FirstName+" "+before.LastName) {
		name.DisplayName = ""
	}
	if !u.Verified {
		prof.Profile.KeepVerified(&old.Profile)
		if rec.Username != was.Username {
			prof.Profile.vouch(rec.Partition, rec.Username)
		}
	}
	if err := prof.Check(); err != nil {
		return rec, prof, err
	}
	prof.Profile.markStated(u.By, &old.Profile)
	prof.Profile.markSetBy(u.By, &old.Profile, u.Confirmed)
	prof.Directory.markSetBy(u.By, &old.Directory)
	if err := RefuseOthers(u.tx, u.By, u.id, &rec, &prof.Profile, &old.Profile, was.Username); err != nil {
		return rec, prof, err
	}
	if err := u.s.CheckConfigured(u.tx, &prof, old, u.now); err != nil {
		return rec, prof, err
	}
	if u.Complete {
		if err := u.s.checkKept(u.tx, &prof.Profile, &old.Profile); err != nil {
			return rec, prof, err
		}
	}
	if err := checkGroups(rec.Groups); err != nil {
		return rec, prof, err
	}
	if rec.State != was.State && !slices.Contains([]State{Active, Blocked, Inactive}, d.State) {
		return rec, prof, &ValidationError{"state", "is not one that a person can be set to"}
	}
	if rec.Username != was.Username && IsID(rec.Username) {
		return rec, prof, &ValidationError{"username", "must not look like an id"}
	}
	rec.Take(&prof)
	return rec, prof, u.spare(was, &rec, &old.Profile, &prof.Profile)
}

func sameProfile(a, b *Profile) bool { return reflect.DeepEqual(a, b) }

// SameDetails reports whether two states of a person are equal.
func SameDetails(a, b *Details) bool {
	return slices.Equal(a.Groups, b.Groups) && reflect.DeepEqual(a.Profile, b.Profile) && reflect.DeepEqual(a.Directory, b.Directory)
}

// changes returns the names of the parts that differ.
func (u *updateTx) changes(was, rec *Record, old, prof *ProfileRecord) (out []string) {
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

// write stores the changed person with all that follows from the change: hooks, notices and events.
func (u *updateTx) write(was, rec *Record, old, prof *ProfileRecord, changes []string) error {
	rec.UpdatedAt = u.now
	if was.State != rec.State || u.phc != "" {
		rec.Epoch++ // all sessions and tokens end
		if err := u.s.Watcher().SessionsEnded(u.tx, u.id, ""); err != nil {
			return err
		}
	}
	if err := u.tellOf(was, rec, old, prof); err != nil {
		return err
	}
	if err := u.s.callChangeHooks(u.tx, u.id, &old.Profile, &prof.Profile); err != nil {
		return err
	}
	if err := u.rename(was, rec); err != nil {
		return err
	}
	if u.phc != "" {
		if err := Passwords.Put(u.tx, u.id, PasswordRecord{PHC: u.phc, ChangedAt: u.now, SetBy: u.By.Untrusted()}, time.Time{}); err != nil {
			return err
		}
	}
	if err := reindex(u.tx, u.id, placesOf(was, old), placesOf(rec, prof), u.now); err != nil {
		return err
	}
	if err := Records.Put(u.tx, u.id, *rec, time.Time{}); err != nil {
		return err
	}
	if err := Profiles.Put(u.tx, u.id, *prof, time.Time{}); err != nil {
		return err
	}
	// State and password have events of their own. One event lists everything else.
	changes = slices.DeleteFunc(changes, func(name string) bool { return name == "state" || name == "password" })
	if len(changes) > 0 {
		if err := u.record(rec, EventUpdated, ReasonWith(strings.Join(changes, ", "), u.left)); err != nil {
			return err
		}
	}
	if kind, ok := stateEvents[rec.State]; was.State != rec.State && ok {
		if err := u.record(rec, kind, ""); err != nil {
			return err
		}
	} else if was.State != rec.State { // invited again
		if err := u.record(rec, EventUpdated, "state"); err != nil {
			return err
		}
	}
	if u.phc != "" {
		return u.record(rec, passwordChanged, "")
	}
	return nil
}

func (u *updateTx) record(rec *Record, kind audit.Type, reason string) error {
	e := u.By.Fill(u.events[kind], u.id, reason)
	e.Partition = rec.PartitionName()
	return u.s.deps.Events.Append(u.tx, e)
}

// tellOf notifies the person of the change.
func (u *updateTx) tellOf(was, rec *Record, old, prof *ProfileRecord) error {
	if was.State != rec.State && rec.State == Blocked {
		if err := u.s.tellDone(u.tx, u.id, was, &old.Profile, personBlocked, u.now); err != nil {
			return err
		}
	}
	return u.s.tellChanges(u.tx, u.id, was, &old.Profile, &prof.Profile, u.phc != "", u.now)
}

// KeepName protects a username of the default partition from changes: the configuration names a person by it, and
// anyone who took it would count as that person. It is called before the service is used.
func (s *Service) KeepName(username string) {
	if folded, err := Fold(username); err == nil {
		s.kept = append(s.kept, folded)
	}
}

// IsKept reports whether the configuration names a person by the username.
func (s *Service) IsKept(rec *Record) bool {
	folded, err := Fold(rec.Username)
	return err == nil && rec.PartitionName() == audit.DefaultPartition && slices.Contains(s.kept, folded)
}

// rename moves the key of a changed username. Another spelling of the same name has the same key.
func (u *updateTx) rename(was, rec *Record) error {
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
	if u.s.IsKept(was) {
		return ErrNameKept
	}
	if err := u.s.CheckChosen(rec.Username); err != nil {
		return err
	}
	if err := tally(u.tx, rec.PartitionName(), 0); err != nil {
		return err
	}
	if err := deleteName(u.tx, rec.PartitionName(), from); err != nil {
		return err
	}
	return createName(u.tx, rec.PartitionName(), to, u.id)
}
