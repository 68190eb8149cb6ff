package person

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Identity is an identity at a provider that signs a person in.
type Identity struct {
	Provider, Key string
	Record        IdentityRecord
}

// CoupledIdentities returns the identities of a person, sorted by provider.
func CoupledIdentities(tx storage.Tx, personID string) (out []Identity, err error) {
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		rec, found, err := Identities.Find(tx, parts[2])
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, Identity{parts[1], parts[2], rec})
		}
	}
	return out, nil
}

// ExternalKey returns the key of an identity by the folded username, so case does not matter. The username is hashed
// because it can be longer than a part of a key should be.
func ExternalKey(provider, folded string) string { return storage.Key(provider, secret.Hash(folded)) }

// IdentityKey returns the key of an identity: by issuer and subject exactly, without an issuer by the subject
// regardless of case.
func IdentityKey(providerID string, id *idp.Identity) string {
	if id.Issuer == "" {
		if folded, err := Fold(id.Subject); err == nil {
			return ExternalKey(providerID, folded)
		}
	}
	return storage.Key(providerID, secret.Hash(id.Issuer+"\x00"+id.Subject))
}

// FirstValue returns the first value of the first detail that has one.
func FirstValue(details map[string][]string, names ...string) string {
	for _, n := range names {
		if v := details[n]; len(v) > 0 && v[0] != "" {
			return v[0]
		}
	}
	return ""
}

// hasTrue reports whether a detail is the word true.
func hasTrue(details map[string][]string, name string) bool {
	return slices.Equal(details[name], []string{"true"})
}

// maxSameEmail bounds how many persons with an address are read. With more than one, none is linked anyway.
const maxSameEmail = 8

// linkLevelOfRoles is the level of a person with a role who links an identity: more than a password.
const linkLevelOfRoles = 2

// HasRole reports whether a person has a role in the admin console.
func (s *Service) HasRole(rec *Record) bool {
	return s.cfg.HasRole != nil && s.cfg.HasRole(rec.PartitionName(), rec.Groups)
}

// LinkLevel is the level that a session of the person needs at least to link an identity, which becomes a way to sign
// in: a person with a role in the admin console steps up for it.
func (s *Service) LinkLevel(rec *Record) int {
	if s.HasRole(rec) {
		return linkLevelOfRoles
	}
	return 0
}

// CoupleIdentity links an identity at a provider to a person who has not asked for it here. A person with a role in the
// admin console is linked by CoupleProved alone: an address or a name that a provider or an API client states must not
// open the account of an administrator. Errors: ErrCoupled, ErrCoupledOther, ErrHasRole.
func (s *Service) CoupleIdentity(tx storage.Tx, providerID string, id *idp.Identity, personID string, now time.Time) error {
	known, found, err := Identities.Find(tx, CoupledKey(providerID, id))
	if err != nil || found && known.PersonID == personID {
		return err
	}
	rec, _, err := Records.Find(tx, personID) // an account in the making is no one's yet
	if err != nil {
		return err
	}
	if s.HasRole(&rec) {
		return ErrHasRole
	}
	return s.CoupleProved(tx, providerID, id, personID, now)
}

// CoupleProved links an identity at a provider to a person who has shown that the account is theirs, as strongly as
// LinkLevel demands. Errors: ErrCoupled, ErrCoupledOther.
func (s *Service) CoupleProved(tx storage.Tx, providerID string, id *idp.Identity, personID string, now time.Time) error {
	key := CoupledKey(providerID, id)
	known, found, err := Identities.Find(tx, key)
	switch {
	case err != nil || found && known.PersonID == personID:
		return err
	case found:
		return ErrCoupled
	}
	if err := refuseTaken(tx, providerID, id, personID); err != nil {
		return err
	}
	occupied, err := s.isOccupied(tx, providerID, personID, id)
	if err == nil && occupied {
		err = ErrCoupledOther
	}
	if err != nil {
		return err
	}
	rec := IdentityRecord{PersonID: personID, Issuer: id.Issuer, Subject: id.Subject, Since: now}
	if err := NoteIdentity(tx, providerID, key, rec, id); err != nil {
		return err
	}
	if err := listSubject(tx, key, &rec); err != nil {
		return err
	}
	return IdentitiesOf.Put(tx, storage.Key(personID, providerID, key), struct{}{}, time.Time{})
}

// refuseTaken returns ErrCoupled if an identity is that of someone else, where one of both is known only by its
// subject.
func refuseTaken(tx storage.Tx, providerID string, id *idp.Identity, personID string) error {
	keys := []string{AnyIssuerKey(providerID, id.Subject)}
	if id.Issuer == "" {
		for e, err := range externalSubjects.Scan(tx, storage.Range{Prefix: storage.Prefix(providerID, secret.Hash(id.Subject))}) {
			if err != nil {
				return err
			}
			keys = append(keys, storage.Key(providerID, storage.Parts(e.Key)[2]))
		}
	}
	for _, key := range keys {
		theirs, found, err := Identities.Find(tx, key)
		if err == nil && found && theirs.PersonID != personID {
			err = ErrCoupled
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// subjectEntry returns the key in externalSubjects of an identity, or "" if it has no issuer.
func subjectEntry(key string, rec *IdentityRecord) string {
	if rec.Issuer == "" {
		return ""
	}
	parts := storage.Parts(key)
	return storage.Key(parts[0], secret.Hash(rec.Subject), parts[1])
}

func listSubject(tx storage.Tx, key string, rec *IdentityRecord) error {
	entry := subjectEntry(key, rec)
	if entry == "" {
		return nil
	}
	return externalSubjects.Put(tx, entry, struct{}{}, time.Time{})
}

// ListSubjects lists the identities of persons by their subjects. Those that an earlier version has linked are not.
func ListSubjects(tx storage.Tx, personIDs []string) error {
	for _, id := range personIDs {
		linked, err := CoupledIdentities(tx, id)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) { // one that cannot be read signs no one in
			return err
		}
		for _, l := range linked {
			if err := listSubject(tx, l.Key, &l.Record); err != nil {
				return err
			}
		}
	}
	return nil
}

// NoteVouched stores whether a linked identity has no more than the word of an API client.
func NoteVouched(tx storage.Tx, providerID string, id *idp.Identity, vouched bool) error {
	key := CoupledKey(providerID, id)
	rec, err := Identities.Get(tx, key)
	if err != nil || rec.Vouched == vouched {
		return err
	}
	rec.Vouched, rec.SetBy = vouched, ""
	return Identities.Put(tx, key, rec, time.Time{})
}

// IsVouched reports whether a linked identity has no more than the word of an API client.
func IsVouched(tx storage.Tx, providerID string, id *idp.Identity) (bool, error) {
	for _, key := range []string{CoupledKey(providerID, id), AnyIssuerKey(providerID, id.Subject)} {
		if rec, found, err := Identities.Find(tx, key); err != nil || found {
			return rec.Vouched, err
		}
	}
	return false, nil
}

// CoupledKey returns the key of an identity, also if it is known only by its subject.
func CoupledKey(providerID string, id *idp.Identity) string {
	if id.Issuer == "" {
		return AnyIssuerKey(providerID, id.Subject)
	}
	return IdentityKey(providerID, id)
}

// AnyIssuerKey returns the key of an identity that was linked without an issuer.
func AnyIssuerKey(providerID, subject string) string {
	return storage.Key(providerID, secret.Hash("\x00"+subject))
}

// isOccupied reports whether a person is linked to another identity at the provider: an address that gets a new owner
// there must not open the old owner's account.
func (s *Service) isOccupied(tx storage.Tx, providerID, personID string, id *idp.Identity) (bool, error) {
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID, providerID)}) {
		if err != nil {
			return false, err
		}
		rec, found, err := Identities.Find(tx, storage.Parts(e.Key)[2])
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		if rec.Subject != id.Subject || (rec.Issuer != id.Issuer && rec.Issuer != "" && id.Issuer != "") {
			return true, nil
		}
	}
	return false, nil
}

// forgetIdentities unlinks all identities of a person.
func forgetIdentities(tx storage.Tx, personID string) error {
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return err
		}
		parts := storage.Parts(e.Key)
		if err := Uncouple(tx, personID, parts[1], parts[2]); err != nil {
			return err
		}
	}
	return nil
}

// Uncouple unlinks an identity from its person.
func Uncouple(tx storage.Tx, personID, providerID, key string) error {
	rec, _, err := Identities.Find(tx, key)
	if err != nil {
		return err
	}
	if err := forgetStable(tx, key, rec.Stable); err != nil {
		return err
	}
	if entry := subjectEntry(key, &rec); entry != "" {
		if err := externalSubjects.Delete(tx, entry); err != nil {
			return err
		}
	}
	if err := Identities.Delete(tx, key); err != nil {
		return err
	}
	return IdentitiesOf.Delete(tx, storage.Key(personID, providerID, key))
}

// VerifiedEmail returns the e-mail address of an identity, and whether the provider, or the operator for it, says that
// it is verified.
func VerifiedEmail(id *idp.Identity) (email string, verified bool) {
	email, verified = id.Email, id.EmailVerified
	if email == "" {
		email, verified = FirstValue(id.Details, "email", "mail"), hasTrue(id.Details, "email_verified")
	} else if !verified && email == FirstValue(id.Details, "email") {
		verified = hasTrue(id.Details, "email_verified")
	}
	if email = strings.TrimSpace(email); !IsEmail(email) {
		return "", false
	}
	return email, verified
}

// ByVerifiedEmail returns the ids of the persons of the default partition whose address it is: the persons themselves,
// a provider or the operator have shown it. That an administrator below owner says so does not count.
func ByVerifiedEmail(tx storage.Tx, email string) (ids []string, err error) {
	return byEmail(tx, email, func(e EmailAddress) bool { return e.Verified && !e.Stated })
}

// byEmail returns the ids of the persons of the default partition with an address that counts.
func byEmail(tx storage.Tx, email string, counts func(EmailAddress) bool) (ids []string, err error) {
	folded := FoldEmail(email)
	candidates := []string{}
	for e, err := range EmailIndex.Scan(tx, storage.Range{Prefix: storage.Prefix(audit.DefaultPartition, folded), Limit: maxSameEmail}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		candidates = append(candidates, parts[len(parts)-1])
	}
	if name, err := Fold(email); err == nil { // persons older than the index are found by their username
		rec, err := ReadName(tx, audit.DefaultPartition, name)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		if err == nil && !slices.Contains(candidates, rec.PersonID) {
			candidates = append(candidates, rec.PersonID)
		}
	}
	for _, id := range candidates {
		rec, found, err := Records.Find(tx, id)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		prof, err := ReadProfile(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(prof.Profile.EmailAddresses, func(e EmailAddress) bool { return counts(e) && FoldEmail(e.Value) == folded }) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
