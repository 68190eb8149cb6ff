package federation

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/username"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SynchronisedDetails are the parts of a profile that a provider may write, with the names of the details that hold
// them.
var SynchronisedDetails = map[string][]string{
	"name": {"name", "displayName", "display_name"}, "given_name": {"given_name", "firstName", "first_name"},
	"family_name": {"family_name", "lastName", "last_name"}, "locale": {"locale", "preferred_locale"}, "email": {"email", "mail"},
}

// Writes reports whether the provider writes a part of the profile, whatever the person has entered there.
func (p *Provider) Writes(part string) bool {
	return p.Synchronise && !slices.ContainsFunc(SynchronisedDetails[part],
		func(name string) bool { return slices.Contains(p.Editable, name) })
}

// Newcomer is the person that an identity would become.
type Newcomer struct {
	id     string
	Person person.NewPerson
	Rec    person.Record
	Prof   person.ProfileRecord
	Folded string // the username, as names are compared
	// Asked says that the person has a form to fill in first, Named that they choose a username and a password there.
	Asked, Named bool
}

// PrepareNewcomer prepares a person for an identity. Details that do not fit into a profile are left out.
func (s *Service) PrepareNewcomer(a *Answer) (*Newcomer, error) {
	id, err := uuid.NewRandomFromReader(s.deps.Random)
	if err != nil {
		return nil, err
	}
	out := &Newcomer{id: id.String(), Person: a.Says()}
	if out.Rec, out.Prof, out.Folded, err = out.Person.Records(); err != nil {
		// The name cannot be typed, so any other one is as good.
		out.Person.Username = a.madeUpName()
		if out.Rec, out.Prof, out.Folded, err = out.Person.Records(); err != nil {
			out.Person = person.NewPerson{Username: out.Person.Username, EmailVerified: new(bool)}
			if out.Rec, out.Prof, out.Folded, err = out.Person.Records(); err != nil {
				return nil, err
			}
		}
	}
	now := s.deps.Now()
	out.Rec.CreatedAt, out.Rec.UpdatedAt = now, now
	return out, nil
}

// Says returns the person of an answer with the username that they would get.
func (a *Answer) Says() person.NewPerson {
	n := PersonFrom(a.Identity)
	if n.Username = a.Provider.names(a.Identity); n.Username == "" {
		n.Username = a.madeUpName()
	}
	if custom := a.Provider.customOf(a.Identity); len(custom) > 0 {
		n.Profile = &person.Profile{CustomAttributes: custom}
	}
	return n
}

// customOf returns the custom attributes that the provider gives a person. One that cannot be stored is left out.
func (p *Provider) customOf(id *idp.Identity) []person.CustomAttribute {
	var said person.Profile
	for _, name := range p.Custom {
		if v := person.FirstValue(id.Details, name); v != "" {
			said.CustomAttributes = append(said.CustomAttributes, person.CustomAttribute{Name: name, Value: v})
		}
	}
	return person.NewPerson{Profile: &said}.Usable(nil, time.Time{}).Profile.CustomAttributes
}

// madeUpName is a username that says nothing but where the person comes from.
func (a *Answer) madeUpName() string {
	sum := sha256.Sum256([]byte(a.Key()))
	return a.Provider.ID + "-" + hex.EncodeToString(sum[:8])
}

// names returns the username of a newcomer, or "" where the provider must not choose one. Applications trust usernames,
// so a provider names people only where the operator maps a username, or by a verified address in its own domains; and
// never by a reserved name, or by an address that it has not verified.
// (docs/decisions/providers.md#usernames-from-providers)
func (p *Provider) names(id *idp.Identity) string {
	email, verified := person.VerifiedEmail(id)
	folded, err := person.Fold(id.Username)
	switch {
	case id.Username == "":
		if _, domain, _ := strings.Cut(email, "@"); verified && slices.Contains(p.Domains, strings.ToLower(domain)) {
			return email
		}
		return ""
	case err != nil, username.Reserved(folded),
		strings.Contains(folded, "@") && !(verified && person.FoldEmail(folded) == person.FoldEmail(email)):
		return ""
	}
	return id.Username
}

// PersonFrom makes a person of an identity and its details, without a username.
func PersonFrom(id *idp.Identity) person.NewPerson {
	email, verified := person.VerifiedEmail(id)
	first := func(part string) string { return person.FirstValue(id.Details, SynchronisedDetails[part]...) }
	n := person.NewPerson{
		Email: email, EmailVerified: &verified,
		Name: first("name"), GivenName: first("given_name"), FamilyName: first("family_name"), Locale: first("locale"),
	}
	n = n.Usable(nil, time.Time{})
	n.Profile = nil // the members above are all of it
	return n
}

// synchronise writes the details of the provider into the profile of an existing person, as any other change: with the
// same checks, event and notices, and it lowers the sessions that the earlier address has raised. up is prepared with
// the origin of the sign-in. Details that cannot be stored do not stop a sign-in; an address that is refused does not
// keep the name from being stored.
func (s *Service) synchronise(tx storage.Tx, m *Match, p *Member, id *idp.Identity, up *person.Update) error {
	up.By.ID, up.By.Name, up.By.Vouched = m.ID, m.Person.Username, p.Untrusted()
	n := PersonFrom(id)
	if n.Email == "" || !*n.EmailVerified {
		n.Email, n.EmailVerified = "", nil // an unverified address replaces no other
	}
	p.keepEdited(&n, &m.Person)
	apply := func() error {
		_, err := up.Apply(tx, m.ID, func(_ storage.Tx, d *person.Details) error {
			n.Complete(&d.Profile, "")
			d.Profile.SetCustom(p.customOf(id))
			d.LeftOut = n.LeftOut
			return nil
		})
		return err
	}
	up.Foreign = true
	err, invalid := apply(), new(person.ValidationError)
	if errors.As(err, &invalid) && invalid.Field == "email" && n.Email != "" {
		n.Email, n.EmailVerified = "", nil
		err = apply()
	}
	if errors.As(err, &invalid) {
		return nil
	}
	if err == nil {
		m.Person, err = person.Records.Get(tx, m.ID)
	}
	return err
}

// keepEdited removes from what the provider says the parts that the person may change and has already.
func (p *Provider) keepEdited(n *person.NewPerson, has *person.Record) {
	for _, part := range []struct {
		name, has string
		says      *string
	}{
		{"name", has.Name, &n.Name},
		{"given_name", has.GivenName, &n.GivenName},
		{"family_name", has.FamilyName, &n.FamilyName},
		{"locale", has.Locale, &n.Locale},
	} {
		if part.has != "" && !p.Writes(part.name) {
			*part.says = ""
		}
	}
	if has.Email != "" && !p.Writes("email") {
		n.Email, n.EmailVerified = "", nil
	}
}
