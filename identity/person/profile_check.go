package person

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Bounds of a profile.
const (
	MaxEntries    = 20   // of each kind of addresses and numbers
	maxCustom     = 100  // custom attributes
	maxCustomName = 128  // characters
	MaxTag        = 64   // characters
	maxValue      = 1024 // characters of a custom attribute
	MaxLine       = 256  // characters of everything else
	maxPlural     = 8192 // characters: a certificate is a value
	maxHouse      = 999999
	maxProfile    = 64 << 10
)

var (
	phoneForm  = regexp.MustCompile(`^(tel:)?\+?[0-9(][0-9 ()./;=a-zA-Z-]{1,62}$`)
	customName = regexp.MustCompile(`^[\pL\pN_.:/-]+$`) // with a count in it, it would take 3 MB
)

// check completes the profile, and returns a *ValidationError if it cannot be stored.
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
	if p.PreferredLocale != "" && !isLocale(p.PreferredLocale) {
		return &ValidationError{"locale", "is not a language tag"}
	}
	for _, check := range []func() error{p.checkEmails, p.checkPhones, p.checkAddresses, p.checkCustom} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// isLocale reports whether s is a language tag. (BCP 47)
func isLocale(s string) bool {
	_, err := xlanguage.Parse(s)
	return err == nil && len(s) <= MaxTag
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
		if a.HouseNumber < 0 || a.HouseNumber > maxHouse {
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

// checkCustom returns a *ValidationError if the custom attributes cannot be stored.
func (p *Profile) checkCustom() error {
	if len(p.CustomAttributes) > maxCustom {
		return &ValidationError{"custom_attributes", fmt.Sprintf("are more than %d", maxCustom)}
	}
	seen := map[string]bool{}
	for _, c := range p.CustomAttributes {
		if utf8.RuneCountInString(c.Name) > maxCustomName || !customName.MatchString(c.Name) || seen[c.Name] {
			return &ValidationError{"custom_attributes", "must have names of letters, digits and _ . : / -, each of them once"}
		}
		seen[c.Name] = true
		if !IsText(c.Value, maxValue) {
			return &ValidationError{
				"custom_attributes",
				fmt.Sprintf("must have values of at most %d characters, none of them a control character", maxValue),
			}
		}
	}
	return nil
}

// line is a text of a directory.
type line struct {
	field string
	v     *string
}

// lines returns the texts of at most MaxLine characters.
func (d *Directory) lines() []line {
	return []line{
		{"externalId", &d.ExternalID},
		{"name.formatted", &d.FormattedName},
		{"name.middleName", &d.MiddleName},
		{"name.honorificPrefix", &d.HonorificPrefix},
		{"name.honorificSuffix", &d.HonorificSuffix},
		{"nickName", &d.NickName},
		{"profileUrl", &d.ProfileURL},
		{"title", &d.Title},
		{"userType", &d.UserType},
		{"timezone", &d.Timezone},
		{"preferredLanguage", &d.Language},
		{"employeeNumber", &d.EmployeeNumber},
		{"costCenter", &d.CostCenter},
		{"organization", &d.Organization},
		{"division", &d.Division},
		{"department", &d.Department},
		{"manager", &d.Manager},
	}
}

// check returns a *ValidationError if the directory's part cannot be stored.
func (d *Directory) check() error {
	for _, f := range d.lines() {
		if !IsText(*f.v, MaxLine) {
			return &ValidationError{f.field, fmt.Sprintf("must have at most %d characters, none of them a control character", MaxLine)}
		}
	}
	if d.ProfileURL != "" && !isWebAddress(d.ProfileURL) {
		return &ValidationError{"profileUrl", notWeb}
	}
	for field, values := range d.Plurals {
		if len(values) > MaxEntries {
			return &ValidationError{field, fmt.Sprintf("are more than %d", MaxEntries)}
		}
		for _, v := range values {
			if !IsText(v.Value, maxPlural) || !IsText(v.Display, MaxLine) || !IsText(v.Type, MaxTag) {
				return &ValidationError{field, "have a value that is too long or has control characters"}
			}
			if field == "photos" && v.Value != "" && !isWebAddress(v.Value) {
				return &ValidationError{field, notWeb}
			}
		}
	}
	return nil
}

// CheckConfigured checks a person against the settings, and the date of birth against the time. before is nil for a new
// person. Error: *ValidationError.
func (s *Service) CheckConfigured(tx storage.Tx, p, before *ProfileRecord, now time.Time) error {
	u, err := s.deps.Units(tx)
	if err != nil {
		return err
	}
	if p.Profile.DateOfBirth > now.AddDate(0, 0, 1).Format(time.DateOnly) { // somewhere it is tomorrow already
		return &ValidationError{"date_of_birth", "is in the future"}
	}
	for _, e := range p.Profile.EmailAddresses {
		known := before != nil && slices.ContainsFunc(before.Profile.EmailAddresses, func(old EmailAddress) bool { return old.Value == e.Value })
		if !known && !u.Features.CustomEmailValidation.Check(e.Value) {
			return &ValidationError{"email", "is not an address that is taken here"}
		}
	}
	if before == nil {
		if absent := p.Profile.absent(u); len(absent) > 0 {
			return &absent[0]
		}
	}
	return nil
}

// absent returns the details that the settings require of new people and a profile lacks.
func (p *Profile) absent(u *settings.Units) (out []ValidationError) {
	must := u.Attributes.PersonCreationMandatoryFields
	if must.FirstNameRequired && strings.TrimSpace(p.Name.FirstName) == "" {
		out = append(out, ValidationError{"given_name", "is required"})
	}
	if must.LastNameRequired && strings.TrimSpace(p.Name.LastName) == "" {
		out = append(out, ValidationError{"family_name", "is required"})
	}
	if must.MobileNumberRequired && len(p.PhoneNumbers) == 0 {
		out = append(out, ValidationError{"phone_number", "is required"})
	}
	for _, anyOf := range p.unmet(u) {
		out = append(out, ValidationError{attributeMembers[anyOf[0]], "is required" + others(anyOf[1:])})
	}
	return out
}

// checkKept refuses a profile that lacks a required detail which it had before. People from before the requirement can
// be changed without it.
func (s *Service) checkKept(tx storage.Tx, p, before *Profile) error {
	u, err := s.deps.Units(tx)
	if err != nil {
		return err
	}
	had := before.absent(u)
	for _, a := range p.absent(u) {
		if !slices.Contains(had, a) {
			return &a
		}
	}
	return nil
}

// attributeMembers are the members of a profile that an attribute of the settings means.
var attributeMembers = map[string]string{
	settings.AttributeName: "name", settings.AttributePhone: "phone_number", settings.AttributeBirthDate: "date_of_birth",
	settings.AttributeEmail: "email",
}

// others names the attributes that could take the place of a required one.
func others(attributes []string) string {
	text := ""
	for _, a := range attributes {
		text += ", or " + attributeMembers[a]
	}
	return text
}

const notWeb = "must be an http or https URL"

// isWebAddress reports whether a URL can be given to applications as the claim profile or picture: they make links of
// it, and a javascript: URL would run in their pages.
func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && IsText(s, maxPlural)
}

// Missing returns the rules of the configuration that a profile does not meet.
func (p *Profile) Missing(u *settings.Units) (out [][]string) {
	if u.Attributes.Verification.EmailRequired && !p.HasEmail(true) {
		out = append(out, []string{settings.AttributeEmail})
	}
	return append(out, p.unmet(u)...)
}

// unmet returns the rules of required attributes that a profile does not meet.
func (p *Profile) unmet(u *settings.Units) (out [][]string) {
	for _, rule := range u.Profile.Rules {
		met := len(rule.AnyOf) == 0
		for _, attribute := range rule.AnyOf {
			met = met || p.has(attribute)
		}
		if !met {
			out = append(out, rule.AnyOf)
		}
	}
	return out
}

func (p *Profile) has(attribute string) bool {
	switch attribute {
	case settings.AttributeName:
		return p.Name.DisplayName != "" || p.Name.FirstName != "" || p.Name.LastName != ""
	case settings.AttributePhone:
		return len(p.PhoneNumbers) > 0
	case settings.AttributeBirthDate:
		return p.DateOfBirth != ""
	case settings.AttributeEmail:
		return p.HasEmail(false)
	}
	return false
}

// HasEmail reports whether there is an address, or a verified one.
func (p *Profile) HasEmail(verified bool) bool {
	for _, e := range p.EmailAddresses {
		if e.Verified || !verified {
			return true
		}
	}
	return false
}
