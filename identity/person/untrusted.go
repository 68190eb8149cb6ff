package person

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// markSetBy notes which addresses and numbers an untrusted actor has entered. What was there before keeps its mark:
// only removing it, or entering it again by someone else, takes it away. before is nil for a new person, confirmed an
// address that the actor has entered now.
func (p *Profile) markSetBy(by audit.Actor, before *Profile, confirmed string) {
	who := by.Untrusted()
	if before == nil {
		before = new(Profile)
	}
	for i := range p.EmailAddresses {
		e := &p.EmailAddresses[i]
		if at, _, _ := (Contact{ContactEmail, e.Value}).Find(before); who == "" && FoldEmail(e.Value) == FoldEmail(confirmed) {
			e.SetBy = ""
		} else if at >= 0 {
			e.SetBy = before.EmailAddresses[at].SetBy
		} else if who != "" {
			e.SetBy = who
		}
	}
	for i := range p.PhoneNumbers {
		n := &p.PhoneNumbers[i]
		if at, _, _ := (Contact{ContactPhone, n.Value}).Find(before); at >= 0 {
			n.SetBy = before.PhoneNumbers[at].SetBy
		} else if who != "" {
			n.SetBy = who
		}
	}
}

// markSetBy notes an untrusted actor who has entered the external id, as of addresses.
func (d *Directory) markSetBy(by audit.Actor, before *Directory) {
	if d.SetBy = before.SetBy; d.ExternalID != before.ExternalID {
		d.SetBy = by.Untrusted()
	}
}

// MarkNew marks the addresses, the numbers and the external id of a new person by who has entered them.
func (r *ProfileRecord) MarkNew(by audit.Actor) {
	r.Profile.markStated(by, nil)
	r.Profile.markSetBy(by, nil, "")
	r.Directory.markSetBy(by, new(Directory))
}

// Trusted returns the profile without the addresses and numbers that an untrusted actor has entered.
func (p *Profile) Trusted() *Profile {
	out := p.Clone()
	out.EmailAddresses = slices.DeleteFunc(out.EmailAddresses, func(e EmailAddress) bool { return e.SetBy != "" })
	out.PhoneNumbers = slices.DeleteFunc(out.PhoneNumbers, func(n PhoneNumber) bool { return n.SetBy != "" })
	return &out
}

// SetBy returns the untrusted actor who has entered a contact, or "".
func (c Contact) SetBy(p *Profile) string {
	switch i, _, _ := c.Find(p); {
	case i < 0:
		return ""
	case c.Kind == ContactPhone:
		return p.PhoneNumbers[i].SetBy
	default:
		return p.EmailAddresses[i].SetBy
	}
}

// Planted is a way into the account of a person that an untrusted actor has prepared. It is closed while the person
// has a role in the admin console.
type Planted struct {
	Kind  string    `json:"kind"`            // password, email, phone, account
	Value string    `json:"value,omitempty"` // the address, the number, the id of the provider
	By    string    `json:"by,omitempty"`    // who has set it. Empty: an API client
	At    time.Time `json:"since,omitzero"`  // zero: not known
}

func (p Planted) String() string {
	what := map[string]string{
		"password": "the password", "email": "the e-mail address ", "phone": "the telephone number ", "account": "the linked account at ",
	}[p.Kind] + p.Value
	text := fmt.Sprintf("%s, set by %s", what, cmp.Or(p.By, "an API client"))
	if p.At.IsZero() {
		return text
	}
	return text + " on " + p.At.UTC().Format(time.DateOnly)
}

// Warning says that it does not let a person in.
func (p Planted) Warning(username string) string {
	return username + " has a role in the console, and is not let in by " + p.String()
}

// PlantedFor returns the ways into an account that untrusted actors have prepared.
func PlantedFor(tx storage.Tx, id string) (out []Planted, err error) {
	pw, _, err := Passwords.Find(tx, id)
	if err != nil {
		return nil, err
	}
	if pw.SetBy != "" {
		out = append(out, Planted{Kind: "password", By: pw.SetBy, At: pw.ChangedAt})
	}
	prof, _, err := Profiles.Find(tx, id)
	if err != nil {
		return nil, err
	}
	for _, e := range prof.Profile.EmailAddresses {
		if e.SetBy != "" {
			out = append(out, Planted{Kind: "email", Value: e.Value, By: e.SetBy})
		}
	}
	for _, n := range prof.Profile.PhoneNumbers {
		if n.SetBy != "" {
			out = append(out, Planted{Kind: "phone", Value: n.Value, By: n.SetBy})
		}
	}
	linked, err := CoupledIdentities(tx, id)
	for _, l := range linked {
		if l.Record.Vouched {
			out = append(out, Planted{Kind: "account", Value: l.Provider, By: l.Record.SetBy, At: l.Record.Since})
		}
	}
	return out, err
}
