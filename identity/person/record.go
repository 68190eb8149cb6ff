package person

import (
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/secure/precis"

	"github.com/gatehouse-id/gatehouse/storage"
)

// IsID tells a person's id from a username, which cannot have this form.
func IsID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// Fold returns the form in which usernames are compared (RFC 8265 3.3, UsernameCaseMapped: width, case, NFC), or a *ValidationError.
func Fold(username string) (string, error) {
	username = strings.TrimSpace(username)
	if username == "" || !utf8.ValidString(username) || utf8.RuneCountInString(username) > MaxUsername {
		return "", &ValidationError{"username", fmt.Sprintf("must have 1 to %d characters", MaxUsername)}
	}
	folded, err := precis.UsernameCaseMapped.String(username)
	if err != nil || len(folded) > maxFolded {
		return "", &ValidationError{"username", "has characters that a username cannot have, such as spaces"}
	}
	return folded, nil
}

// Record checks what the administrator said and returns the small record alone.
func (n NewPerson) Record() (Record, string, error) {
	rec, _, folded, err := n.Records()
	return rec, folded, err
}

// Records checks what the administrator said.
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

// Complete puts the short members of a new person into the profile.
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
	p.vouch(username)
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

// vouch: a username is an e-mail address because the administrator said so: nobody else has shown that it is another's.
func (p *Profile) vouch(username string) {
	for i := range p.EmailAddresses {
		if e := &p.EmailAddresses[i]; strings.EqualFold(e.Value, username) {
			e.Verified = true
		}
	}
}

// checkGroups says what is wrong with the names of a person's groups.
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

// checkGroupName: headers carry the groups with commas between them, and a name is a storage key.
func checkGroupName(g string) error {
	if g == "" || strings.TrimSpace(g) != g || strings.Contains(g, ",") || !IsText(g, MaxName) || len(g) > maxFolded {
		return &ValidationError{"groups", "must be names without commas, control characters and spaces around them"}
	}
	return nil
}

// Check completes the record and says what of it cannot be stored.
func (p *ProfileRecord) Check() error {
	if err := p.Profile.check(); err != nil {
		return err
	}
	return p.Directory.check()
}

// Take copies into the small record what the hot paths read.
func (r *Record) Take(p *ProfileRecord) {
	email := p.Profile.PrimaryEmail()
	r.Name, r.GivenName, r.FamilyName = p.Profile.Name.DisplayName, p.Profile.Name.FirstName, p.Profile.Name.LastName
	r.Email, r.EmailVerified = email.Value, email.Verified
	r.Locale, r.Claims = p.Profile.PreferredLocale, p.Profile.claims(&p.Directory)
}

// overlay gives the profile what the small record says: where both know something, that one is right.
func (p *ProfileRecord) overlay(r *Record) {
	n := &p.Profile.Name
	n.FirstName, n.LastName, n.DisplayName = r.GivenName, r.FamilyName, r.Name
	if n.DisplayName == "" {
		n.DisplayName = strings.TrimSpace(n.FirstName + " " + n.LastName)
	}
	p.Profile.PreferredLocale = r.Locale
	p.Profile.setPrimaryEmail(r.Email, r.EmailVerified)
}

// ReadProfile returns all that is known of the person of a record. One who was created by a sign-in elsewhere has no profile record.
func ReadProfile(tx storage.Tx, id string, rec *Record) (ProfileRecord, error) {
	p, err := Profiles.Get(tx, id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return p, err
	}
	p.overlay(rec)
	return p, nil
}

// CreatePerson writes a new person with everything that leads there, or returns ErrUsernameTaken.
func CreatePerson(tx storage.Tx, id string, rec Record, prof *ProfileRecord, folded string) error {
	if err := createName(tx, rec.PartitionName(), folded, id); err != nil {
		return err
	}
	if err := tally(tx, rec.PartitionName(), 1); err != nil {
		return err
	}
	if err := Records.Create(tx, id, rec, time.Time{}); err != nil {
		return err
	}
	if prof == nil {
		prof = new(ProfileRecord)
		prof.overlay(&rec)
	}
	if err := Profiles.Put(tx, id, *prof, time.Time{}); err != nil {
		return err
	}
	return Reindex(tx, id, places{}, PlacesOf(&rec, prof), rec.UpdatedAt)
}

// forget removes everything that leads to a person who is removed, and the profile.
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
	if err := Reindex(tx, id, PlacesOf(before, &prof), places{}, before.UpdatedAt); err != nil {
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
	return Passwords.Delete(tx, id)
}

// places are the keys by which a person is found, beside id and username.
type places struct {
	emails   []string // partition and folded address
	phones   []string // E.164 numbers
	external string   // partition and external id
	groups   []string
}

func PlacesOf(r *Record, p *ProfileRecord) (out places) {
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
	out.groups = r.Groups
	return out
}

// Reindex makes a person be found where the new places are, and no longer where only the old ones are.
func Reindex(tx storage.Tx, id string, before, after places, now time.Time) error {
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
			if err := set.table.Delete(tx, k+"\x00\x01"+id); err != nil {
				return err
			}
		}
		for _, k := range set.after {
			if slices.Contains(set.before, k) {
				continue
			}
			if err := set.table.Put(tx, k+"\x00\x01"+id, struct{}{}, time.Time{}); err != nil {
				return err
			}
		}
	}
	for _, g := range before.groups {
		if !slices.Contains(after.groups, g) {
			if err := leaveGroup(tx, g, id, now); err != nil {
				return err
			}
		}
	}
	for _, g := range after.groups {
		if !slices.Contains(before.groups, g) {
			if err := joinGroup(tx, g, id, now); err != nil {
				return err
			}
		}
	}
	return nil
}

func TheOnly(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// tally counts the persons of a partition, after their names have changed. When nothing has counted yet it counts the names.
func tally(tx storage.Tx, partition string, by int64) error {
	rec, err := tallies.Get(tx, partition)
	if errors.Is(err, storage.ErrNotFound) {
		if rec.Persons, err = countNames(tx, partition); err != nil {
			return err
		}
		by = 0
	} else if err != nil {
		return err
	}
	rec.Persons += by
	rec.Version++
	return tallies.Put(tx, partition, rec, time.Time{})
}

func IsEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && len(s) <= 254 && IsText(s, 254)
}

func IsText(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' })
}

func (r Record) person(id string) Person {
	return Person{
		ID: id, Username: r.Username, State: r.State, Partition: r.Partition, Name: r.Name, GivenName: r.GivenName, FamilyName: r.FamilyName, Email: r.Email,
		EmailVerified: r.EmailVerified, Groups: r.Groups, Locale: r.Locale, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
