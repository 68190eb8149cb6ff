package person

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Record is Records without the profile.
func (n NewPerson) Record() (Record, string, error) {
	rec, _, folded, err := n.Records()
	return rec, folded, err
}

// Records checks what the administrator entered, and returns the records of the person and the folded username.
func (n NewPerson) Records() (rec Record, prof ProfileRecord, folded string, err error) {
	rec = Record{State: Active, Username: strings.TrimSpace(n.Username), Groups: slices.Clone(n.Groups), Partition: stored(n.Partition)}
	if n.Inactive {
		rec.State = Inactive
	}
	if folded, err = Fold(rec.Username); err != nil {
		return rec, prof, "", err
	}
	if IsID(rec.Username) {
		return rec, prof, "", &ValidationError{"username", "must not look like an id"}
	}
	if n.Profile != nil {
		prof.Profile = *n.Profile
	}
	if n.Directory != nil {
		prof.Directory = *n.Directory
	}
	n.Complete(&prof.Profile, rec.Username)
	if err := prof.Check(); err != nil {
		return rec, prof, "", err
	}
	if err := checkGroups(rec.Groups); err != nil {
		return rec, prof, "", err
	}
	rec.Take(&prof)
	return rec, prof, folded, nil
}

// Complete copies the short members of a new person into the profile.
func (n NewPerson) Complete(p *Profile, username string) {
	set := func(to *string, v string) {
		if v != "" {
			*to = v
		}
	}
	set(&p.Name.DisplayName, n.Name)
	set(&p.Name.FirstName, n.GivenName)
	set(&p.Name.LastName, n.FamilyName)
	set(&p.PreferredLocale, n.Locale)
	p.EmailAddresses = slices.Clone(p.EmailAddresses)
	email := n.Email
	if email == "" && len(p.EmailAddresses) == 0 && IsEmail(username) {
		email = username
	}
	if email != "" {
		p.setPrimaryEmail(email, false)
	}
	p.vouch(stored(n.Partition), username)
	if n.EmailVerified == nil {
		return
	}
	if len(p.EmailAddresses) > 0 && !slices.ContainsFunc(p.EmailAddresses, func(e EmailAddress) bool { return e.Primary }) {
		p.EmailAddresses[0].Primary = true
	}
	for i := range p.EmailAddresses {
		if e := &p.EmailAddresses[i]; e.Primary {
			e.Verified = *n.EmailVerified
		}
	}
}

// vouch marks an address that is also the username as verified: the administrator has entered it, and we trust it. In
// another partition than the default one it can have been entered by an administrator of that partition alone, and
// others need not trust that administrator.
func (p *Profile) vouch(partition, username string) {
	if partition != "" {
		return
	}
	for i := range p.EmailAddresses {
		if e := &p.EmailAddresses[i]; strings.EqualFold(e.Value, username) {
			e.Verified = true
		}
	}
}

// checkGroups returns a *ValidationError if a person cannot be in groups of these names.
func checkGroups(groups []string) error {
	if len(groups) > maxGroups {
		return &ValidationError{"groups", fmt.Sprintf("are more than %d", maxGroups)}
	}
	for _, g := range groups {
		if err := checkGroupName(g); err != nil {
			return err
		}
	}
	return nil
}

// checkGroupName checks the name of a group, which is a storage key. What it means to be "Sales, EMEA" in a header that
// separates groups by commas is protect's.
func checkGroupName(g string) error {
	if strings.TrimSpace(g) == "" || !IsText(g, MaxName) || len(g) > maxFolded {
		return &ValidationError{"groups", "must be names of 1 to 256 characters, none of them a control character"}
	}
	return nil
}

// Check completes the record, and returns a *ValidationError if it cannot be stored.
func (p *ProfileRecord) Check() error {
	if err := p.Profile.check(); err != nil {
		return err
	}
	return p.Directory.check()
}

// Take copies from the profile what frequent requests read.
func (r *Record) Take(p *ProfileRecord) {
	email := p.Profile.PrimaryEmail()
	r.Name, r.GivenName, r.FamilyName = p.Profile.Name.DisplayName, p.Profile.Name.FirstName, p.Profile.Name.LastName
	r.Email, r.EmailVerified = email.Value, email.Verified
	r.Locale, r.Claims = p.Profile.PreferredLocale, p.Profile.claims(&p.Directory)
}

// overlay copies what the Record knows into the profile. The Record is right if they differ.
func (p *ProfileRecord) overlay(r *Record) {
	n := &p.Profile.Name
	n.FirstName, n.LastName, n.DisplayName = r.GivenName, r.FamilyName, r.Name
	if n.DisplayName == "" {
		n.DisplayName = strings.TrimSpace(n.FirstName + " " + n.LastName)
	}
	p.Profile.PreferredLocale = r.Locale
	p.Profile.setPrimaryEmail(r.Email, r.EmailVerified)
}

// ReadProfile returns the profile of a person by their record. A person that a header provider has created has no
// stored profile.
func ReadProfile(tx storage.Tx, id string, rec *Record) (ProfileRecord, error) {
	p, _, err := Profiles.Find(tx, id)
	if err != nil {
		return p, err
	}
	p.overlay(rec)
	return p, nil
}

// CreatePerson stores a new person with all indexes, or returns ErrUsernameTaken.
func CreatePerson(tx storage.Tx, id string, rec Record, prof *ProfileRecord, folded string) error {
	if err := createName(tx, rec.PartitionName(), folded, id); err != nil {
		return err
	}
	if err := tally(tx, rec.PartitionName(), 1); err != nil {
		return err
	}
	if err := Records.Create(tx, id, rec, time.Time{}); errors.Is(err, storage.ErrExists) {
		return &ValidationError{"id", "is that of another person, or of one who was removed"}
	} else if err != nil {
		return err
	}
	if prof == nil {
		prof = new(ProfileRecord)
		prof.overlay(&rec)
	}
	if err := Profiles.Put(tx, id, *prof, time.Time{}); err != nil {
		return err
	}
	return reindex(tx, id, Places{}, placesOf(&rec, prof), rec.UpdatedAt)
}

// forget deletes the profile, the password, the links and the indexes of a person who is removed.
func (s *Service) forget(tx storage.Tx, id string, before *Record) error {
	prof, err := ReadProfile(tx, id, before)
	if err != nil {
		return err
	}
	folded, err := Fold(before.Username)
	if err != nil {
		return err
	}
	if before.External != "" {
		if err := Identities.Delete(tx, before.External); err != nil {
			return err
		}
	}
	if err := forgetIdentities(tx, id); err != nil {
		return err
	}
	for _, h := range s.removeHooks {
		if err := h(tx, id); err != nil {
			return err
		}
	}
	if err := reindex(tx, id, placesOf(before, &prof), Places{}, before.UpdatedAt); err != nil {
		return err
	}
	if err := deleteName(tx, before.PartitionName(), folded); err != nil {
		return err
	}
	if err := tally(tx, before.PartitionName(), -1); err != nil {
		return err
	}
	if err := Profiles.Delete(tx, id); err != nil {
		return err
	}
	if err := configured.Delete(tx, id); err != nil {
		return err
	}
	return Passwords.Delete(tx, id)
}
