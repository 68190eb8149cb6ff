package person

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Key names an address in a form: when it is another by now, the form is about none.
func (a Address) Key() string {
	return base64.RawURLEncoding.EncodeToString([]byte(secret.Hash(fmt.Sprintf("%#v", a))))
}

// Line is the address in one line.
func (a Address) Line() string { return strings.ReplaceAll(a.Formatted(), "\n", ", ") }

// Profile is what is known of a person. (identity service document, "Credentials API records")
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
}

// PhoneNumber is one of a person's telephone numbers. Exactly one is primary.
type PhoneNumber struct {
	Primary  bool   `json:"primary" cbor:"1,keyasint,omitempty"`
	Verified bool   `json:"verified" cbor:"2,keyasint,omitempty"`
	Tag      string `json:"tag,omitempty" cbor:"3,keyasint,omitempty"`
	Value    string `json:"value" cbor:"4,keyasint"`
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
	// Tag, such as home or work, is for SCIM alone: the document's addresses have none.
	Tag string `json:"-" cbor:"11,keyasint,omitempty"`
}

// Street is the line with street and house number.
func (a Address) Street() string {
	n := ""
	if a.HouseNumber != 0 {
		n = strconv.Itoa(a.HouseNumber)
	}
	return strings.Join(slices.DeleteFunc([]string{a.StreetName, n, a.HouseNumberAddition}, func(s string) bool { return s == "" }), " ")
}

// Formatted is the whole address, a line for each part.
func (a Address) Formatted() string {
	lines := []string{a.CompanyName, a.Attention, a.Street(), strings.TrimSpace(a.PostalCode + " " + a.City), a.Region, a.CountryCode}
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")
}

// CustomAttribute is an attribute of the operator's own. Its name is unique within a profile.
type CustomAttribute struct {
	Name  string `json:"name" cbor:"1,keyasint"`
	Value string `json:"value" cbor:"2,keyasint"`
}

// Directory is what a directory keeps of a person beyond the Profile, so that SCIM (RFC 7643 4.1 and 4.3) gives back what it was given.
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
}

// Plural is a value of an attribute that may have several. (RFC 7643 2.4)
type Plural struct {
	Value   string `json:"value" cbor:"1,keyasint"`
	Display string `json:"display,omitempty" cbor:"2,keyasint,omitempty"`
	Type    string `json:"type,omitempty" cbor:"3,keyasint,omitempty"`
	Primary bool   `json:"primary,omitempty" cbor:"4,keyasint,omitempty"`
}

// Bounds of a profile.
const (
	MaxEntries = 20   // of each kind of addresses and numbers
	maxCustom  = 100  // custom attributes
	MaxTag     = 64   // characters
	maxValue   = 1024 // characters of a custom attribute
	MaxLine    = 256  // characters of everything else
	maxPlural  = 8192 // characters: a certificate is a value
	maxProfile = 64 << 10
)

var (
	phoneForm  = regexp.MustCompile(`^(tel:)?\+?[0-9(][0-9 ()./;=a-zA-Z-]{1,62}$`)
	customName = regexp.MustCompile(`^[\pL\pN_.:/-]{1,128}$`)
)

// check completes the profile and says what of it cannot be stored.
func (p *Profile) check() error {
	if p.Name.DisplayName == "" {
		p.Name.DisplayName = strings.TrimSpace(p.Name.FirstName + " " + p.Name.LastName)
	}
	for _, f := range []struct{ field, v string }{
		{"given_name", p.Name.FirstName},
		{"family_name", p.Name.LastName},
		{"initials", p.Name.Initials},
		{"name", p.Name.DisplayName},
		{"reference_id", p.ReferenceID},
	} {
		if !IsText(f.v, MaxLine) {
			return &ValidationError{f.field, fmt.Sprintf("must have at most %d characters, none of them a control character", MaxLine)}
		}
	}
	if !slices.Contains([]string{"", "M", "F", "U"}, p.Gender) {
		return &ValidationError{"gender", "is not M, F or U"}
	}
	if p.DateOfBirth != "" {
		if _, err := time.Parse(time.DateOnly, p.DateOfBirth); err != nil {
			return &ValidationError{"date_of_birth", "is not a date such as 1990-12-31"}
		}
	}
	if p.PreferredLocale != "" {
		if _, err := xlanguage.Parse(p.PreferredLocale); err != nil || len(p.PreferredLocale) > MaxTag {
			return &ValidationError{"locale", "is not a language tag"}
		}
	}
	for _, check := range []func() error{p.checkEmails, p.checkPhones, p.checkAddresses, p.checkCustom} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Profile) checkEmails() error {
	if len(p.EmailAddresses) > MaxEntries {
		return &ValidationError{"email", fmt.Sprintf("addresses are more than %d", MaxEntries)}
	}
	seen, primary := map[string]bool{}, 0
	for i := range p.EmailAddresses {
		e := &p.EmailAddresses[i]
		folded := FoldEmail(e.Value)
		switch {
		case !IsEmail(e.Value):
			return &ValidationError{"email", "is not an e-mail address"}
		case seen[folded]:
			return &ValidationError{"email", "is there twice"}
		case !IsText(e.Tag, MaxTag):
			return &ValidationError{"email", "has a tag that is too long or has control characters"}
		}
		seen[folded] = true
		if e.Primary {
			primary++
		}
	}
	if primary > 1 {
		return &ValidationError{"email", "addresses have more than one that is primary"}
	}
	if primary == 0 && len(p.EmailAddresses) > 0 {
		p.EmailAddresses[0].Primary = true
	}
	return nil
}

func (p *Profile) checkPhones() error {
	if len(p.PhoneNumbers) > MaxEntries {
		return &ValidationError{"phone_numbers", fmt.Sprintf("are more than %d", MaxEntries)}
	}
	primary := 0
	for i := range p.PhoneNumbers {
		n := &p.PhoneNumbers[i]
		if !phoneForm.MatchString(n.Value) || !IsText(n.Tag, MaxTag) {
			return &ValidationError{"phone_numbers", "are not all telephone numbers such as +31 20 123 4567"}
		}
		if n.Primary {
			primary++
		}
	}
	if primary > 1 {
		return &ValidationError{"phone_numbers", "have more than one that is primary"}
	}
	if primary == 0 && len(p.PhoneNumbers) > 0 {
		p.PhoneNumbers[0].Primary = true
	}
	return nil
}

func (p *Profile) checkAddresses() error {
	if len(p.Addresses) > MaxEntries {
		return &ValidationError{"addresses", fmt.Sprintf("are more than %d", MaxEntries)}
	}
	primary := 0
	for i := range p.Addresses {
		a := &p.Addresses[i]
		a.CountryCode = strings.ToUpper(a.CountryCode)
		if a.HouseNumber < 0 || a.HouseNumber > 999999 {
			return &ValidationError{"addresses", "have a house number that is none"}
		}
		for _, v := range []string{a.HouseNumberAddition, a.StreetName, a.City, a.PostalCode, a.Region, a.CompanyName, a.Attention, a.Tag} {
			if !IsText(v, MaxLine) {
				return &ValidationError{"addresses", fmt.Sprintf("must have lines of at most %d characters, none of them a control character", MaxLine)}
			}
		}
		if region, err := xlanguage.ParseRegion(cmp.Or(a.CountryCode, "NL")); err != nil || len(a.CountryCode) > 2 || !region.IsCountry() {
			return &ValidationError{"addresses", "have a country that is not the two letters of ISO 3166-1"}
		}
		if a.Primary {
			primary++
		}
	}
	if primary > 1 {
		return &ValidationError{"addresses", "have more than one that is primary"}
	}
	return nil
}

func (p *Profile) checkCustom() error {
	if len(p.CustomAttributes) > maxCustom {
		return &ValidationError{"custom_attributes", fmt.Sprintf("are more than %d", maxCustom)}
	}
	seen := map[string]bool{}
	for _, c := range p.CustomAttributes {
		if !customName.MatchString(c.Name) || seen[c.Name] {
			return &ValidationError{"custom_attributes", "must have names of letters, digits and _ . : / -, each of them once"}
		}
		seen[c.Name] = true
		if !IsText(c.Value, maxValue) {
			return &ValidationError{"custom_attributes", fmt.Sprintf("must have values of at most %d characters, none of them a control character", maxValue)}
		}
	}
	return nil
}

// check says what of the directory's part cannot be stored.
func (d *Directory) check() error {
	for _, f := range []struct{ field, v string }{
		{"externalId", d.ExternalID},
		{"name.formatted", d.FormattedName},
		{"name.middleName", d.MiddleName},
		{"name.honorificPrefix", d.HonorificPrefix},
		{"name.honorificSuffix", d.HonorificSuffix},
		{"nickName", d.NickName},
		{"profileUrl", d.ProfileURL},
		{"title", d.Title},
		{"userType", d.UserType},
		{"timezone", d.Timezone},
		{"preferredLanguage", d.Language},
		{"employeeNumber", d.EmployeeNumber},
		{"costCenter", d.CostCenter},
		{"organization", d.Organization},
		{"division", d.Division},
		{"department", d.Department},
		{"manager", d.Manager},
	} {
		if !IsText(f.v, MaxLine) {
			return &ValidationError{f.field, fmt.Sprintf("must have at most %d characters, none of them a control character", MaxLine)}
		}
	}
	for field, values := range d.Plurals {
		if len(values) > MaxEntries {
			return &ValidationError{field, fmt.Sprintf("are more than %d", MaxEntries)}
		}
		for _, v := range values {
			if !IsText(v.Value, maxPlural) || !IsText(v.Display, MaxLine) || !IsText(v.Type, MaxTag) {
				return &ValidationError{field, "have a value that is too long or has control characters"}
			}
		}
	}
	return nil
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

// setPrimaryEmail makes an address the primary one and says whether it is verified. "" leaves all as they are.
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

// keepVerified takes over from before what was verified then and is the same still. Nobody who changes a profile can say more.
func (p *Profile) keepVerified(before *Profile) {
	for i := range p.EmailAddresses {
		e := &p.EmailAddresses[i]
		e.Verified = slices.ContainsFunc(before.EmailAddresses, func(o EmailAddress) bool {
			return o.Verified && FoldEmail(o.Value) == FoldEmail(e.Value)
		})
	}
	for i := range p.PhoneNumbers {
		n := &p.PhoneNumbers[i]
		n.Verified = slices.ContainsFunc(before.PhoneNumbers, func(o PhoneNumber) bool { return o.Verified && o.Value == n.Value })
	}
}

// FoldEmail is the form in which e-mail addresses are compared: no mail system that matters tells case apart.
func FoldEmail(s string) string { return strings.ToLower(norm.NFC.String(s)) }

// claims are the standard claims (OpenID Connect Core 5.1) that the person's small record does not hold already.
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
