package person

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// LeftOut is a value of another system that the profile of a person cannot have.
type LeftOut struct{ Field, Problem string }

// Fields returns the names of what was left out, each once.
func Fields(left []LeftOut) (out []string) {
	for _, l := range left {
		if !slices.Contains(out, l.Field) {
			out = append(out, l.Field)
		}
	}
	return out
}

// ReasonWith returns the reason of an event with the names of what was left out.
func ReasonWith(reason string, left []LeftOut) string {
	if len(left) == 0 {
		return reason
	}
	if reason != "" {
		reason += "; "
	}
	return reason + "left out: " + strings.Join(Fields(left), ", ")
}

// Usable returns the person without what a profile cannot have. Every way by which other systems bring people uses it:
// an empty value does not count, space around a value is trimmed, and a value that cannot be kept is left out. It
// leaves what makes a person unusable, the username and the primary address, for Records to refuse. u is nil if the
// settings are not known yet. (docs/decisions/scim.md#values-of-other-systems)
func (n NewPerson) Usable(u *settings.Units, now time.Time) NewPerson {
	var prof ProfileRecord
	if n.Profile != nil {
		prof.Profile = n.Profile.Clone()
	}
	if n.Directory != nil {
		prof.Directory = *n.Directory
	}
	n.Email = strings.TrimSpace(n.Email)
	n.Complete(&prof.Profile, strings.TrimSpace(n.Username))
	s := sieve{left: slices.Clone(n.LeftOut)}
	s.profile(&prof.Profile, u, nil, now)
	s.directory(&prof.Directory)
	s.groups(&n.Groups)
	for _, short := range []struct {
		v  *string
		is string
	}{
		{&n.Name, prof.Profile.Name.DisplayName},
		{&n.GivenName, prof.Profile.Name.FirstName},
		{&n.FamilyName, prof.Profile.Name.LastName},
		{&n.Locale, prof.Profile.PreferredLocale},
		{&n.Email, prof.Profile.PrimaryEmail().Value},
	} {
		if *short.v != "" {
			*short.v = short.is
		}
	}
	n.Profile, n.LeftOut = &prof.Profile, s.left
	if n.Directory != nil {
		n.Directory = &prof.Directory
	}
	return n
}

// sieve gathers what is left out.
type sieve struct{ left []LeftOut }

func (s *sieve) drop(field, problem string) {
	if l := (LeftOut{field, problem}); !slices.Contains(s.left, l) {
		s.left = append(s.left, l)
	}
}

// oneLine trims a text. A line break within it is a space.
func oneLine(v string) string {
	if strings.ContainsAny(v, "\t\n\v\f\r\u0085\u2028\u2029") {
		return strings.Join(strings.Fields(v), " ")
	}
	return strings.TrimSpace(v)
}

func (s *sieve) text(field string, v *string, limit int) {
	if *v = oneLine(*v); !IsText(*v, limit) {
		s.drop(field, fmt.Sprintf("has more than %d characters, or a control character", limit))
		*v = ""
	}
}

func (s *sieve) profile(p *Profile, u *settings.Units, before *Profile, now time.Time) {
	s.text("given_name", &p.Name.FirstName, MaxLine)
	s.text("family_name", &p.Name.LastName, MaxLine)
	s.text("initials", &p.Name.Initials, MaxLine)
	s.text("name", &p.Name.DisplayName, MaxLine)
	s.text("reference_id", &p.ReferenceID, MaxLine)
	s.gender(p)
	s.birth(p, now)
	if p.PreferredLocale = oneLine(p.PreferredLocale); p.PreferredLocale != "" && !isLocale(p.PreferredLocale) {
		s.drop("locale", "is not a language tag")
		p.PreferredLocale = ""
	}
	s.emails(p, u, before)
	s.phones(p)
	s.addresses(p)
	s.custom(p)
}

func (s *sieve) gender(p *Profile) {
	g := strings.ToUpper(oneLine(p.Gender))
	if word, ok := map[string]string{"MALE": "M", "FEMALE": "F", "UNKNOWN": "U"}[g]; ok {
		g = word
	}
	if !slices.Contains([]string{"", "M", "F", "U"}, g) {
		s.drop("gender", "is not M, F or U")
		g = ""
	}
	p.Gender = g
}

func (s *sieve) birth(p *Profile, now time.Time) {
	born := oneLine(p.DateOfBirth)
	if len(born) > len(time.DateOnly) && born[len(time.DateOnly)] == 'T' { // a time, as some directories write a date
		born = born[:len(time.DateOnly)]
	}
	if born != "" {
		if at, err := time.Parse(time.DateOnly, born); err != nil || !now.IsZero() && at.After(now.AddDate(0, 0, 1)) {
			s.drop("date_of_birth", "is not a date of the past such as 1990-12-31")
			born = ""
		}
	}
	p.DateOfBirth = born
}

// emails keeps each address once. An unusable one stays if it is the primary one, or if there is no other.
func (s *sieve) emails(p *Profile, u *settings.Units, before *Profile) {
	usable := func(value string) bool {
		known := before != nil && slices.ContainsFunc(before.EmailAddresses, func(e EmailAddress) bool { return e.Value == value })
		return IsEmail(value) && (known || u == nil || u.Features.CustomEmailValidation.Check(value))
	}
	var kept, bad []EmailAddress
	for _, e := range cut(s, "email", p.EmailAddresses, maxLooked) {
		if e.Value = oneLine(e.Value); e.Value == "" {
			continue
		}
		s.text("email", &e.Tag, MaxTag)
		if !usable(e.Value) {
			bad = append(bad, e)
			continue
		}
		i := slices.IndexFunc(kept, func(k EmailAddress) bool { return FoldEmail(k.Value) == FoldEmail(e.Value) })
		if i < 0 {
			kept = append(kept, e)
			continue
		}
		s.drop("email", "is there twice")
		if k := &kept[i]; e.Primary && !k.Primary {
			e.Verified = e.Verified || k.Verified
			*k = e
		}
	}
	isPrimary := func(e EmailAddress) bool { return e.Primary }
	if wrong := slices.IndexFunc(bad, isPrimary); len(kept) == 0 && len(bad) > 0 || wrong >= 0 && !slices.ContainsFunc(kept, isPrimary) {
		kept = append(kept, bad[max(wrong, 0)])
	} else if len(bad) > 0 {
		s.drop("email", "is not an e-mail address that is taken here")
	}
	first := true
	for i := range kept {
		if kept[i].Primary && !first {
			s.drop("email", "addresses have more than one that is primary: the first is it")
			kept[i].Primary = false
		}
		first = first && !kept[i].Primary
	}
	p.EmailAddresses = atMost(s, "email", kept, isPrimary)
}

// cut bounds what is looked at, since some checks compare each value with all others.
func cut[T any](s *sieve, field string, list []T, most int) []T {
	if len(list) > most {
		s.drop(field, fmt.Sprintf("are more than %d", most))
		list = list[:most]
	}
	return list
}

const maxLooked = 10 * MaxEntries

// atMost shortens a list to MaxEntries. What is primary stays.
func atMost[T any](s *sieve, field string, list []T, primary func(T) bool) []T {
	for i := len(list) - 1; len(list) > MaxEntries && i >= 0; i-- {
		if !primary(list[i]) {
			list = slices.Delete(list, i, i+1)
			s.drop(field, fmt.Sprintf("are more than %d", MaxEntries))
		}
	}
	return list
}

// plainPhone writes the spaces and dashes of a number as telephones do.
func plainPhone(v string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case unicode.Is(unicode.Pd, c):
			return '-'
		case unicode.Is(unicode.Cf, c): // marks of direction, which come along with copied numbers
			return -1
		}
		return c
	}, oneLine(v))
}

func (s *sieve) phones(p *Profile) {
	var kept []PhoneNumber
	primary := false
	for _, n := range cut(s, "phone_numbers", p.PhoneNumbers, maxLooked) {
		if n.Value = oneLine(plainPhone(n.Value)); n.Value == "" {
			continue
		}
		if !phoneForm.MatchString(n.Value) {
			s.drop("phone_numbers", "are not all telephone numbers such as +31 20 123 4567")
			continue
		}
		s.text("phone_numbers", &n.Tag, MaxTag)
		if n.Primary && primary {
			s.drop("phone_numbers", "have more than one that is primary: the first is it")
			n.Primary = false
		}
		primary = primary || n.Primary
		kept = append(kept, n)
	}
	p.PhoneNumbers = atMost(s, "phone_numbers", kept, func(n PhoneNumber) bool { return n.Primary })
}

func (s *sieve) addresses(p *Profile) {
	var kept []Address
	primary := false
	for _, a := range cut(s, "addresses", p.Addresses, maxLooked) {
		for _, v := range []*string{
			&a.HouseNumberAddition, &a.StreetName, &a.City, &a.PostalCode, &a.Region,
			&a.CompanyName, &a.Attention, &a.Tag,
		} {
			s.text("addresses", v, MaxLine)
		}
		if a.HouseNumber < 0 || a.HouseNumber > maxHouse {
			s.drop("addresses", "have a house number that is none")
			a.HouseNumber = 0
		}
		if a.CountryCode = oneLine(a.CountryCode); a.CountryCode != "" {
			code, ok := countryCode(a.CountryCode)
			if !ok {
				s.drop("addresses.country", "is not the two letters of ISO 3166-1")
			}
			a.CountryCode = code
		}
		if a.Formatted() == "" {
			continue
		}
		if a.Primary && primary {
			s.drop("addresses", "have more than one that is primary: the first is it")
			a.Primary = false
		}
		primary = primary || a.Primary
		kept = append(kept, a)
	}
	p.Addresses = atMost(s, "addresses", kept, func(a Address) bool { return a.Primary })
}

// countryCode returns the two letters of a country, which some systems name by three.
func countryCode(v string) (string, bool) {
	region, err := xlanguage.ParseRegion(v)
	if err != nil || !region.IsCountry() || len(region.String()) != 2 {
		return "", false
	}
	return region.String(), true
}

func (s *sieve) custom(p *Profile) {
	var kept []CustomAttribute
	for _, c := range cut(s, "custom_attributes", p.CustomAttributes, 2*maxCustom) {
		c.Name = strings.TrimSpace(c.Name)
		c.Value = oneLine(c.Value)
		one := Profile{CustomAttributes: append(slices.Clone(kept), c)}
		if invalid := one.checkCustom(); invalid != nil {
			s.drop("custom_attributes", "have one with a name or a value that cannot be kept, or are too many")
			continue
		}
		kept = one.CustomAttributes
	}
	p.CustomAttributes = kept
}

func (s *sieve) directory(d *Directory) {
	for _, f := range d.lines() {
		s.text(f.field, f.v, MaxLine)
	}
	if d.ProfileURL != "" && !isWebAddress(d.ProfileURL) {
		s.drop("profileUrl", notWeb)
		d.ProfileURL = ""
	}
	d.Plurals = maps.Clone(d.Plurals)
	for field, values := range d.Plurals {
		var kept []Plural
		for _, v := range cut(s, field, values, maxLooked) {
			v.Value, v.Display, v.Type = strings.TrimSpace(v.Value), oneLine(v.Display), oneLine(v.Type)
			switch {
			case v.Value == "" && v.Display == "":
			case !IsText(v.Value, maxPlural):
				s.drop(field, "have a value that is too long or has control characters")
			case field == "photos" && v.Value != "" && !isWebAddress(v.Value):
				s.drop(field, notWeb)
			default:
				s.text(field, &v.Display, MaxLine)
				s.text(field, &v.Type, MaxTag)
				kept = append(kept, v)
			}
		}
		if d.Plurals[field] = atMost(s, field, kept, func(v Plural) bool { return v.Primary }); len(kept) == 0 {
			delete(d.Plurals, field)
		}
	}
	if len(d.Plurals) == 0 {
		d.Plurals = nil
	}
}

func (s *sieve) groups(list *[]string) {
	var kept []string
	for _, g := range cut(s, "groups", *list, 2*maxGroups) {
		switch {
		case strings.TrimSpace(g) == "":
		case checkGroupName(g) != nil:
			s.drop("groups", "have a name that is too long or has control characters")
		case len(kept) == maxGroups:
			s.drop("groups", fmt.Sprintf("are more than %d", maxGroups))
		case !slices.Contains(kept, g):
			kept = append(kept, g)
		}
	}
	*list = kept
}
