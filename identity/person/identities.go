package person

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CoupledIdentity is an identity at a provider that signs a person in.
type CoupledIdentity struct {
	Provider, Key string
	Rec           IdentityRecord
}

// CoupledIdentities returns the identities of a person, sorted by provider.
func CoupledIdentities(tx storage.Tx, personID string) (out []CoupledIdentity, err error) {
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		rec, err := Identities.Get(tx, parts[2])
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, CoupledIdentity{parts[1], parts[2], rec})
	}
	return out, nil
}

// ExternalKey is the key of an identity, by the folded username: who comes in other case is the same person. Usernames may be longer than
// a part of a key should be.
func ExternalKey(provider, folded string) string { return storage.Key(provider, secret.Hash(folded)) }

// IdentityKey is by issuer and subject exactly; without an issuer by the subject regardless of case.
func IdentityKey(providerID string, id *idp.Identity) string {
	if id.Issuer == "" {
		if folded, err := Fold(id.Subject); err == nil {
			return ExternalKey(providerID, folded)
		}
	}
	return storage.Key(providerID, secret.Hash(id.Issuer+"\x00"+id.Subject))
}

// FirstValue returns the one or first value of a detail.
func FirstValue(details map[string][]string, names ...string) string {
	for _, n := range names {
		if v := details[n]; len(v) > 0 && v[0] != "" {
			return v[0]
		}
	}
	return ""
}

// hasTrue tells whether a detail is the word true.
func hasTrue(details map[string][]string, name string) bool {
	return slices.Equal(details[name], []string{"true"})
}

// maxSameEmail bounds how many persons with one address are looked at. With more than one nobody is coupled anyway.
const maxSameEmail = 8

func (s *Service) CoupleIdentity(tx storage.Tx, providerID string, id *idp.Identity, personID string, now time.Time) error {
	key := CoupledKey(providerID, id)
	known, err := Identities.Get(tx, key)
	switch {
	case err == nil && known.PersonID == personID:
		return nil
	case err == nil:
		return ErrCoupled
	case !errors.Is(err, storage.ErrNotFound):
		return err
	}
	if theirs, err := Identities.Get(tx, AnyIssuerKey(providerID, id.Subject)); err == nil && theirs.PersonID != personID {
		return ErrCoupled // whatever the issuer
	} else if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if occupied, err := s.isOccupied(tx, providerID, personID, id); err != nil || occupied {
		if occupied {
			err = ErrCoupledOther
		}
		return err
	}
	rec := IdentityRecord{PersonID: personID, Issuer: id.Issuer, Subject: id.Subject, Since: now}
	if err := Identities.Put(tx, key, rec, time.Time{}); err != nil {
		return err
	}
	return IdentitiesOf.Put(tx, storage.Key(personID, providerID, key), struct{}{}, time.Time{})
}

// CoupledKey is the key of an identity that may be known by its subject alone.
func CoupledKey(providerID string, id *idp.Identity) string {
	if id.Issuer == "" {
		return AnyIssuerKey(providerID, id.Subject)
	}
	return IdentityKey(providerID, id)
}

// AnyIssuerKey is the key of an identity whose issuer was not said when it was coupled.
func AnyIssuerKey(providerID, subject string) string {
	return storage.Key(providerID, secret.Hash("\x00"+subject))
}

// isOccupied tells whether a person has another identity at the provider already: an address that goes to a new owner there must not open
// the old owner's account.
func (s *Service) isOccupied(tx storage.Tx, providerID, personID string, id *idp.Identity) (bool, error) {
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID, providerID)}) {
		if err != nil {
			return false, err
		}
		rec, err := Identities.Get(tx, storage.Parts(e.Key)[2])
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if rec.Subject != id.Subject || (rec.Issuer != id.Issuer && rec.Issuer != "" && id.Issuer != "") {
			return true, nil
		}
	}
	return false, nil
}

// forgetIdentities removes what leads from providers to a person.
func forgetIdentities(tx storage.Tx, personID string) error {
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return err
		}
		if err := Identities.Delete(tx, storage.Parts(e.Key)[2]); err != nil {
			return err
		}
		if err := IdentitiesOf.Delete(tx, e.Key); err != nil {
			return err
		}
	}
	return nil
}

// VerifiedEmail returns the address of an identity and whether the provider says, or the operator for it, that it is the person's own.
func VerifiedEmail(id *idp.Identity) (email string, verified bool) {
	email, verified = id.Email, id.EmailVerified
	if email == "" {
		email, verified = FirstValue(id.Details, "email", "mail"), hasTrue(id.Details, "email_verified")
	} else if !verified && email == FirstValue(id.Details, "email") {
		verified = hasTrue(id.Details, "email_verified")
	}
	if !IsEmail(email) {
		return "", false
	}
	return email, verified
}

// ByVerifiedEmail returns the persons of the default partition whose verified address this is.
func ByVerifiedEmail(tx storage.Tx, email string) (ids []string, err error) {
	folded := FoldEmail(email)
	candidates := []string{}
	for e, err := range EmailIndex.Scan(tx, storage.Range{Prefix: storage.Prefix(event.DefaultPartition, folded), Limit: maxSameEmail}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		candidates = append(candidates, parts[len(parts)-1])
	}
	if name, err := Fold(email); err == nil { // persons from before there was an index are found by their username
		rec, err := ReadName(tx, event.DefaultPartition, name)
		if err == nil && !slices.Contains(candidates, rec.PersonID) {
			candidates = append(candidates, rec.PersonID)
		} else if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
	}
	for _, id := range candidates {
		rec, err := Records.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		prof, err := ReadProfile(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(prof.Profile.EmailAddresses, func(e EmailAddress) bool { return e.Verified && FoldEmail(e.Value) == folded }) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
