package person

import (
	"context"
	"errors"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Find returns the person of a username or id, or ErrNoPerson. A removed person has only an id.
func (s *Service) Find(tx storage.Tx, usernameOrID string) (string, Record, error) {
	id := usernameOrID
	if !IsID(id) {
		partition, username, ok := s.SplitName(usernameOrID)
		folded, err := Fold(username)
		if err != nil || !ok {
			return "", Record{}, ErrNoPerson
		}
		name, err := ReadName(tx, partition, folded)
		if errors.Is(err, storage.ErrNotFound) {
			return "", Record{}, ErrNoPerson
		}
		if err != nil {
			return "", Record{}, err
		}
		id = name.PersonID
	}
	rec, err := Records.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return "", rec, ErrNoPerson
	}
	return id, rec, err
}

// ByUsername returns the id of the person of a username in a partition, or ErrNoPerson.
func (s *Service) ByUsername(tx storage.Tx, partition, username string) (string, error) {
	folded, err := Fold(username)
	if err != nil {
		return "", ErrNoPerson
	}
	name, err := ReadName(tx, partition, folded)
	if errors.Is(err, storage.ErrNotFound) {
		return "", ErrNoPerson
	}
	return name.PersonID, err
}

// ByEmail returns the ids of the persons of a partition with an e-mail address, verified or not, regardless of case.
func (s *Service) ByEmail(tx storage.Tx, partition, address string) ([]string, error) {
	return ActorBy(tx, EmailIndex, partition, FoldEmail(address))
}

// ByExternalID returns the ids of the persons of a partition with an external id. (RFC 7643 3.1)
func (s *Service) ByExternalID(tx storage.Tx, partition, external string) ([]string, error) {
	return ActorBy(tx, externalIndex, partition, external)
}

const maxFound = 1000 // persons of one address or external id

// ActorBy returns the ids of the persons of a partition that an index has under a value.
func ActorBy(tx storage.Tx, table storage.Table[struct{}], partition, what string) (ids []string, err error) {
	if len(what) > maxFolded {
		return nil, nil
	}
	for e, err := range table.Scan(tx, storage.Range{Prefix: storage.Prefix(partition, what), Limit: maxFound}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, storage.Parts(e.Key)[2])
	}
	return ids, nil
}

// CountPersons returns how many persons a partition has, and a version that grows when persons are created or removed
// or change their names.
func (s *Service) CountPersons(tx storage.Tx, partition string) (n, version int64, err error) {
	rec, found, err := tallies.Find(tx, partition)
	if err == nil && !found {
		rec.Persons, err = countNames(tx, partition)
	}
	return rec.Persons, rec.Version, err
}

// ManyPersons returns persons in the order of the ids. Unknown and removed persons are left out.
func (s *Service) ManyPersons(tx storage.Tx, ids []string) ([]Person, error) {
	keys := make([][]byte, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, Records.Key(id))
	}
	raw, err := tx.GetMany(keys...)
	if err != nil {
		return nil, err
	}
	out := make([]Person, 0, len(ids))
	for i, id := range ids {
		if raw[i] == nil {
			continue
		}
		rec, err := Records.Decode(raw[i])
		if err != nil {
			return nil, err
		}
		if rec.State != Removed {
			out = append(out, rec.Person(id))
		}
	}
	return out, nil
}

// PersonIDs calls yield with the persons of a partition in the order of their folded usernames, beginning after the
// folded name after, until it returns false. descending reverses the order.
func (s *Service) PersonIDs(tx storage.Tx, partition, after string, descending bool, yield func(folded, id string) (bool, error)) error {
	return scanNames(tx, partition, after, descending, 0, func(e nameEntry) (bool, error) { return yield(e.folded, e.id) })
}

// Person returns the person of a username or id, or ErrNoPerson.
func (s *Service) Person(ctx context.Context, usernameOrID string) (p Person, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		id, rec, err := s.Find(tx, usernameOrID)
		p = rec.Person(id)
		return err
	})
	return p, err
}

// ListPersons returns at most limit persons (0: 100): the default partition by username, then the others by partition
// and username. after is the last person of the list before, as InPartition writes it.
func (s *Service) ListPersons(ctx context.Context, after string, limit int) (list []Person, err error) {
	if limit <= 0 {
		limit = 100
	}
	partition, name, ok := s.SplitName(after)
	folded := ""
	if after != "" {
		if folded, err = Fold(name); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, &ValidationError{"partition", "is not a partition's name"}
	}
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		list = nil
		take := func(id string) error {
			rec, err := Records.Get(tx, id)
			list = append(list, rec.Person(id))
			return err
		}
		r := storage.Range{}
		if partition == audit.DefaultPartition {
			err := scanNames(tx, partition, folded, false, limit, func(e nameEntry) (bool, error) { return true, take(e.id) })
			if err != nil || !s.cfg.Partitions.On {
				return err
			}
		} else {
			r.After = []byte(storage.Key(partition, folded))
		}
		if r.Limit = limit - len(list); r.Limit == 0 {
			return nil
		}
		for e, err := range partitionUsernames.Scan(tx, r) {
			if err != nil {
				return err
			}
			if err := take(e.Value.PersonID); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// Person returns what commands and APIs show of a person.
func (r Record) Person(id string) Person {
	return Person{
		ID: id, Username: r.Username, State: r.State, Partition: r.Partition, Name: r.Name, GivenName: r.GivenName,
		FamilyName: r.FamilyName, Email: r.Email,
		EmailVerified: r.EmailVerified, Groups: r.Groups, Locale: r.Locale, BlockedUntil: r.BlockedUntil,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
