package person

import (
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// stableKey returns the key in stableNames of an identity, or "" if no attribute identifies it permanently.
func stableKey(providerID string, id *idp.Identity) string {
	if id.Stable == "" {
		return ""
	}
	return storage.Key(providerID, secret.Hash(id.Issuer+"\x00"+id.Stable))
}

// NoteIdentity stores an identity as the provider names it now, if that differs from what is known. rec is the record
// under key, or a new one. The attribute of someone else stays theirs.
func NoteIdentity(tx storage.Tx, providerID, key string, rec IdentityRecord, id *idp.Identity) error {
	stable := stableKey(providerID, id)
	if stable != "" && stable != rec.Stable {
		other, taken, err := stableNames.Find(tx, stable)
		switch {
		case err != nil:
			return err
		case taken && other != key:
			stable = ""
		default:
			if err := stableNames.Put(tx, stable, key, time.Time{}); err != nil {
				return err
			}
		}
	}
	if stable == "" {
		stable = rec.Stable
	}
	if stable != rec.Stable {
		if err := forgetStable(tx, key, rec.Stable); err != nil {
			return err
		}
	}
	known, err := Identities.Has(tx, key)
	if err != nil || known && rec.Form == id.Form && rec.Stable == stable {
		return err
	}
	rec.Form, rec.Stable = id.Form, stable
	return Identities.Put(tx, key, rec, time.Time{})
}

// forgetStable removes the entry of an identity in stableNames, but not that of another one.
func forgetStable(tx storage.Tx, key, stable string) error {
	if stable == "" {
		return nil
	}
	owner, found, err := stableNames.Find(tx, stable)
	if err != nil || !found || owner != key {
		return err
	}
	return stableNames.Delete(tx, stable)
}

// ByStable returns the linked identity that has the same permanent attribute at the provider.
func ByStable(tx storage.Tx, providerID string, id *idp.Identity) (known Identity, found bool, err error) {
	stable := stableKey(providerID, id)
	if stable == "" {
		return known, false, nil
	}
	key, found, err := stableNames.Find(tx, stable)
	if err != nil || !found {
		return known, false, err
	}
	rec, found, err := Identities.Find(tx, key)
	return Identity{providerID, key, rec}, found && rec.Stable == stable, err
}

// RenamedIdentity returns the identity of a person at the provider if id can be the same one under another name: it is
// their only one there, of the same issuer, and the provider has named people in another form since. In the same form
// another name is another person, such as the new owner of an address. A permanent attribute that differs proves that
// too.
func RenamedIdentity(tx storage.Tx, providerID, personID string, id *idp.Identity) (known Identity, found bool, err error) {
	all, err := CoupledIdentities(tx, personID)
	if err != nil {
		return known, false, err
	}
	for _, c := range all {
		if c.Provider != providerID {
			continue
		}
		if found {
			return known, false, nil
		}
		known, found = c, true
	}
	rec, stable := known.Record, stableKey(providerID, id)
	sameIssuer := rec.Issuer == id.Issuer || rec.Issuer == ""
	otherForm := rec.Form != "" && id.Form != "" && rec.Form != id.Form
	contradicts := rec.Stable != "" && stable != "" && rec.Stable != stable
	return known, found && sameIssuer && otherForm && !contradicts, nil
}

// RenameIdentity links a person to id instead of an identity that they have at the provider.
func (s *Service) RenameIdentity(tx storage.Tx, old Identity, id *idp.Identity, now time.Time) error {
	if err := Uncouple(tx, old.Record.PersonID, old.Provider, old.Key); err != nil {
		return err
	}
	if err := s.CoupleProved(tx, old.Provider, id, old.Record.PersonID, now); err != nil {
		return err
	}
	return NoteVouched(tx, old.Provider, id, old.Record.Vouched)
}
