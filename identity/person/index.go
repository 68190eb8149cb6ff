package person

import (
	"cmp"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Places are the keys by which a person is found, besides id and username.
type Places struct {
	partition string
	emails    []string // partition and folded address
	phones    []string // E.164 numbers
	external  string   // partition and external id
	groups    []string
}

// placesOf returns the places of a person.
func placesOf(r *Record, p *ProfileRecord) (out Places) {
	for _, e := range p.Profile.EmailAddresses {
		out.emails = append(out.emails, storage.Key(r.PartitionName(), FoldEmail(e.Value)))
	}
	for _, n := range p.Profile.PhoneNumbers {
		if number, ok := ParsePhone(n.Value); ok {
			out.phones = append(out.phones, storage.Key(number))
		}
	}
	if p.Directory.ExternalID != "" {
		out.external = storage.Key(r.PartitionName(), p.Directory.ExternalID)
	}
	out.partition, out.groups = r.PartitionName(), r.Groups
	return out
}

// reindex replaces the places of a person in the indexes and the memberships in groups.
func reindex(tx storage.Tx, id string, before, after Places, now time.Time) error {
	for _, set := range []struct {
		table         storage.Table[struct{}]
		before, after []string
	}{
		{EmailIndex, before.emails, after.emails},
		{PhoneIndex, before.phones, after.phones},
		{externalIndex, TheOnly(before.external), TheOnly(after.external)},
	} {
		for _, k := range set.before {
			if slices.Contains(set.after, k) {
				continue
			}
			if err := set.table.Delete(tx, entry(k, id)); err != nil {
				return err
			}
		}
		for _, k := range set.after {
			if slices.Contains(set.before, k) {
				continue
			}
			if err := set.table.Put(tx, entry(k, id), struct{}{}, time.Time{}); err != nil {
				return err
			}
		}
	}
	partition := cmp.Or(after.partition, before.partition) // a person stays in it
	for _, g := range before.groups {
		if !slices.Contains(after.groups, g) {
			if err := leaveGroup(tx, partition, g, id, now); err != nil {
				return err
			}
		}
	}
	for _, g := range after.groups {
		if !slices.Contains(before.groups, g) {
			if err := joinGroup(tx, partition, g, id, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry returns the key of a person at a place in an index.
func entry(place, id string) string { return storage.Key(append(storage.Parts(place), id)...) }

// TheOnly returns s in a list, or nothing for "".
func TheOnly(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// tally updates the number of persons of a partition after their names have changed. If there is no number yet, it
// counts the names.
func tally(tx storage.Tx, partition string, by int64) error {
	rec, found, err := tallies.Find(tx, partition)
	if err == nil && !found {
		rec.Persons, err = countNames(tx, partition)
		by = 0
	}
	if err != nil {
		return err
	}
	rec.Persons += by
	rec.Version++
	return tallies.Put(tx, partition, rec, time.Time{})
}
