package person

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Profile are the details of a person. (identity service document, "Credentials API records")
type Profile struct {
	EmailAddresses   []EmailAddress    `json:"email_addresses" cbor:"1,keyasint,omitempty"`
	Gender           string            `json:"gender,omitempty" cbor:"2,keyasint,omitempty"` // M, F, U
	Name             Name              `json:"name,omitzero" cbor:"3,keyasint,omitempty"`
	DateOfBirth      string            `json:"date_of_birth,omitempty" cbor:"4,keyasint,omitempty"` // 2006-01-02
	PhoneNumbers     []PhoneNumber     `json:"phone_numbers,omitempty" cbor:"5,keyasint,omitempty"`
	Addresses        []Address         `json:"addresses,omitempty" cbor:"6,keyasint,omitempty"`
	CustomAttributes []CustomAttribute `json:"custom_attributes,omitempty" cbor:"7,keyasint,omitempty"`
	PreferredLocale  string            `json:"preferred_locale,omitempty" cbor:"8,keyasint,omitempty"` // BCP 47
	ReferenceID      string            `json:"reference_id,omitempty" cbor:"9,keyasint,omitempty"`
}

// Clone returns a copy whose lists can be changed.
func (p Profile) Clone() Profile {
	p.EmailAddresses, p.PhoneNumbers = slices.Clone(p.EmailAddresses), slices.Clone(p.PhoneNumbers)
	p.Addresses, p.CustomAttributes = slices.Clone(p.Addresses), slices.Clone(p.CustomAttributes)
	return p
}

// Name is the parts of a person's name. DisplayName is first plus last name unless it was given.
type Name struct {
	FirstName   string `json:"first_name,omitempty" cbor:"1,keyasint,omitempty"`
	LastName    string `json:"last_name,omitempty" cbor:"2,keyasint,omitempty"`
	Initials    string `json:"initials,omitempty" cbor:"3,keyasint,omitempty"`
	DisplayName string `json:"display_name,omitempty" cbor:"4,keyasint,omitempty"`
}

// EmailAddress is one of a person's e-mail addresses. Exactly one is primary.
type EmailAddress struct {
	Primary  bool   `json:"primary" cbor:"1,keyasint,omitempty"`
	Verified bool   `json:"verified" cbor:"2,keyasint,omitempty"`
	Tag      string `json:"tag,omitempty" cbor:"3,keyasint,omitempty"` // such as home or work
	Value    string `json:"value" cbor:"4,keyasint"`
	// Stated says that no one but an administrator below owner says that the address is verified. Then it links no
	// one.
	Stated bool `json:"-" cbor:"5,keyasint,omitempty"`
	// SetBy names an actor who has entered the address and is audit.Actor.Untrusted. Then no one with a role in the
	// admin console gets a link there that lets its reader sign in.
	SetBy string `json:"-" cbor:"6,keyasint,omitempty"`
}

// PhoneNumber is one of a person's telephone numbers. Exactly one is primary.
type PhoneNumber struct {
	Primary  bool   `json:"primary" cbor:"1,keyasint,omitempty"`
	Verified bool   `json:"verified" cbor:"2,keyasint,omitempty"`
	Tag      string `json:"tag,omitempty" cbor:"3,keyasint,omitempty"`
	Value    string `json:"value" cbor:"4,keyasint"`
	SetBy    string `json:"-" cbor:"5,keyasint,omitempty"` // as in EmailAddress
}

// Address is one of a person's postal addresses. At most one is primary.
type Address struct {
	HouseNumber         int    `json:"house_number,omitempty" cbor:"1,keyasint,omitempty"`
	HouseNumberAddition string `json:"house_number_addition,omitempty" cbor:"2,keyasint,omitempty"`
	StreetName          string `json:"street_name,omitempty" cbor:"3,keyasint,omitempty"`
	City                string `json:"city,omitempty" cbor:"4,keyasint,omitempty"`
	PostalCode          string `json:"postal_code,omitempty" cbor:"5,keyasint,omitempty"`
	Region              string `json:"region,omitempty" cbor:"6,keyasint,omitempty"`
	CountryCode         string `json:"country_code,omitempty" cbor:"7,keyasint,omitempty"` // ISO 3166-1, two letters
	CompanyName         string `json:"company_name,omitempty" cbor:"8,keyasint,omitempty"`
	Attention           string `json:"attentation,omitempty" cbor:"9,keyasint,omitempty"` // spelled so on the wire
	Primary             bool   `json:"primary" cbor:"10,keyasint,omitempty"`
	// Tag, such as home or work, is only for SCIM: the document's addresses have no tag.
	Tag string `json:"-" cbor:"11,keyasint,omitempty"`
}

// Street returns the line with street and house number.
func (a Address) Street() string {
	n := ""
	if a.HouseNumber != 0 {
		n = strconv.Itoa(a.HouseNumber)
	}
	return strings.Join(slices.DeleteFunc([]string{a.StreetName, n, a.HouseNumberAddition}, func(s string) bool { return s == "" }), " ")
}

// Formatted returns the whole address, a line for each part.
func (a Address) Formatted() string {
	lines := []string{a.CompanyName, a.Attention, a.Street(), strings.TrimSpace(a.PostalCode + " " + a.City), a.Region, a.CountryCode}
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// Key identifies an address in a form. It changes with the address, so an outdated form matches no address.
func (a Address) Key() string {
	return base64.RawURLEncoding.EncodeToString([]byte(secret.Hash(fmt.Sprintf("%#v", a))))
}

// Line returns the address in one line.
func (a Address) Line() string { return strings.ReplaceAll(a.Formatted(), "\n", ", ") }

// CustomAttribute is an attribute of the operator's own. Its name is unique within a profile.
type CustomAttribute struct {
	Name  string `json:"name" cbor:"1,keyasint"`
	Value string `json:"value" cbor:"2,keyasint"`
}

// Directory are the attributes that a directory adds to the Profile, so SCIM (RFC 7643 4.1 and 4.3) returns what it
// was given.
type Directory struct {
	ExternalID      string              `json:"external_id,omitempty" cbor:"1,keyasint,omitempty"`
	FormattedName   string              `json:"formatted_name,omitempty" cbor:"2,keyasint,omitempty"`
	MiddleName      string              `json:"middle_name,omitempty" cbor:"3,keyasint,omitempty"`
	HonorificPrefix string              `json:"honorific_prefix,omitempty" cbor:"4,keyasint,omitempty"`
	HonorificSuffix string              `json:"honorific_suffix,omitempty" cbor:"5,keyasint,omitempty"`
	NickName        string              `json:"nick_name,omitempty" cbor:"6,keyasint,omitempty"`
	ProfileURL      string              `json:"profile_url,omitempty" cbor:"7,keyasint,omitempty"`
	Title           string              `json:"title,omitempty" cbor:"8,keyasint,omitempty"`
	UserType        string              `json:"user_type,omitempty" cbor:"9,keyasint,omitempty"`
	Language        string              `json:"language,omitempty" cbor:"10,keyasint,omitempty"` // preferredLanguage, where it is not the locale
	Timezone        string              `json:"timezone,omitempty" cbor:"11,keyasint,omitempty"` // IANA name
	EmployeeNumber  string              `json:"employee_number,omitempty" cbor:"12,keyasint,omitempty"`
	CostCenter      string              `json:"cost_center,omitempty" cbor:"13,keyasint,omitempty"`
	Organization    string              `json:"organization,omitempty" cbor:"14,keyasint,omitempty"`
	Division        string              `json:"division,omitempty" cbor:"15,keyasint,omitempty"`
	Department      string              `json:"department,omitempty" cbor:"16,keyasint,omitempty"`
	Manager         string              `json:"manager,omitempty" cbor:"17,keyasint,omitempty"` // a person's id
	Plurals         map[string][]Plural `json:"plurals,omitempty" cbor:"18,keyasint,omitempty"` // ims, photos, entitlements, roles, x509Certificates
	// SetBy names an untrusted actor who has entered ExternalID, as in EmailAddress.
	SetBy string `json:"-" cbor:"19,keyasint,omitempty"`
}

// Plural is a value of an attribute that may have several. (RFC 7643 2.4)
type Plural struct {
	Value   string `json:"value" cbor:"1,keyasint"`
	Display string `json:"display,omitempty" cbor:"2,keyasint,omitempty"`
	Type    string `json:"type,omitempty" cbor:"3,keyasint,omitempty"`
	Primary bool   `json:"primary,omitempty" cbor:"4,keyasint,omitempty"`
}

// PrimaryEmail returns the primary address, or an empty one.
func (p *Profile) PrimaryEmail() EmailAddress {
	for _, e := range p.EmailAddresses {
		if e.Primary {
			return e
		}
	}
	return EmailAddress{}
}

// setPrimaryEmail makes an address the primary one, verified or not. "" changes nothing.
func (p *Profile) setPrimaryEmail(value string, verified bool) {
	if value == "" {
		return
	}
	found := false
	for i := range p.EmailAddresses {
		e := &p.EmailAddresses[i]
		e.Primary = !found && FoldEmail(e.Value) == FoldEmail(value)
		if e.Primary {
			found, e.Value, e.Verified = true, value, verified
		}
	}
	if !found {
		p.EmailAddresses = append([]EmailAddress{{Primary: true, Verified: verified, Value: value}}, p.EmailAddresses...)
	}
}

// KeepVerified marks as verified what was verified before and is the same. A change of a profile verifies nothing
// else.
func (p *Profile) KeepVerified(before *Profile) {
	for i := range p.EmailAddresses {
		e := &p.EmailAddresses[i]
		e.Verified, e.Stated = false, false
		for _, o := range before.EmailAddresses {
			if o.Verified && FoldEmail(o.Value) == FoldEmail(e.Value) {
				e.Verified, e.Stated = true, o.Stated
			}
		}
	}
	for i := range p.PhoneNumbers {
		n := &p.PhoneNumbers[i]
		n.Verified = slices.ContainsFunc(before.PhoneNumbers, func(o PhoneNumber) bool { return o.Verified && o.Value == n.Value })
	}
}

// claims returns the standard claims (OpenID Connect Core 5.1) that are not members of the Record.
func (p *Profile) claims(d *Directory) map[string]string {
	out := map[string]string{}
	set := func(name, v string) {
		if v != "" {
			out[name] = v
		}
	}
	set("birthdate", p.DateOfBirth)
	set("gender", map[string]string{"M": "male", "F": "female"}[p.Gender])
	set("middle_name", d.MiddleName)
	set("nickname", d.NickName)
	set("profile", d.ProfileURL)
	set("zoneinfo", d.Timezone)
	for _, photo := range d.Plurals["photos"] {
		if photo.Primary || out["picture"] == "" {
			set("picture", photo.Value)
		}
	}
	for _, n := range p.PhoneNumbers {
		if n.Primary {
			set("phone_number", strings.TrimPrefix(n.Value, "tel:"))
			out["phone_number_verified"] = strconv.FormatBool(n.Verified)
		}
	}
	for _, a := range p.Addresses {
		if a.Primary || out["address"] == "" {
			set("address", a.Formatted())
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
