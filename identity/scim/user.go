package scim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pluralNames are the attributes that are kept as they were sent.
var pluralNames = []string{"ims", "photos", "entitlements", "roles", "x509Certificates"}

// put sets a text that is not empty.
func put(o object, name, v string) {
	if v != "" {
		o[name] = v
	}
}

// userTree is a person as a resource. groups names the ids of the person's groups; nil: groups are left out.
func (s *Server) userTree(d *person.Details, groups func(name string) (string, error)) (object, error) {
	o, err := s.userDraft(d, groups)
	if err == nil {
		version(o)
	}
	return o, err
}

// userDraft is userTree without the version, which is the most expensive part.
func (s *Server) userDraft(d *person.Details, groups func(name string) (string, error)) (object, error) {
	p, dir := &d.Profile, &d.Directory
	o := object{"id": d.ID, "userName": d.Username, "active": d.State == person.Active}
	put(o, "externalId", dir.ExternalID)
	name := object{}
	put(name, "givenName", p.Name.FirstName)
	put(name, "familyName", p.Name.LastName)
	put(name, "middleName", dir.MiddleName)
	put(name, "honorificPrefix", dir.HonorificPrefix)
	put(name, "honorificSuffix", dir.HonorificSuffix)
	put(name, "formatted", dir.FormattedName)
	if len(name) > 0 {
		o["name"] = name
	}
	put(o, "displayName", p.Name.DisplayName)
	put(o, "nickName", dir.NickName)
	put(o, "profileUrl", dir.ProfileURL)
	put(o, "title", dir.Title)
	put(o, "userType", dir.UserType)
	put(o, "preferredLanguage", dir.Language)
	put(o, "locale", p.PreferredLocale)
	put(o, "timezone", dir.Timezone)
	contactTree(o, p)
	for _, name := range pluralNames {
		list := make([]any, 0, len(dir.Plurals[name]))
		for _, v := range dir.Plurals[name] {
			one := object{}
			put(one, "value", v.Value)
			put(one, "display", v.Display)
			put(one, "type", v.Type)
			if v.Primary {
				one["primary"] = true
			}
			list = append(list, one)
		}
		if len(list) > 0 {
			o[name] = list
		}
	}
	extensionTree(o, d)
	if groups != nil && len(d.Groups) > 0 {
		list := make([]any, 0, len(d.Groups))
		for _, g := range d.Groups {
			id, err := groups(g)
			if err != nil {
				return nil, err
			}
			if id != "" {
				list = append(list, object{"value": id, "$ref": s.location(groupType, id), "display": g, "type": "direct"})
			}
		}
		if len(list) > 0 {
			o["groups"] = list
		}
	}
	s.describe(o, userType, d.ID, d.CreatedAt, d.UpdatedAt)
	return o, nil
}

// contactTree adds addresses and numbers.
func contactTree(o object, p *person.Profile) {
	var emails, phones, addresses []any
	entry := func(value, kind string, primary bool) object {
		one := object{"value": value}
		put(one, "type", kind)
		if primary {
			one["primary"] = true
		}
		return one
	}
	for _, e := range p.EmailAddresses {
		emails = append(emails, entry(e.Value, e.Tag, e.Primary))
	}
	for _, n := range p.PhoneNumbers {
		phones = append(phones, entry(n.Value, n.Tag, n.Primary))
	}
	for _, a := range p.Addresses {
		one := object{}
		put(one, "formatted", a.Formatted())
		put(one, "streetAddress", a.Street())
		put(one, "locality", a.City)
		put(one, "region", a.Region)
		put(one, "postalCode", a.PostalCode)
		put(one, "country", a.CountryCode)
		put(one, "type", a.Tag)
		if a.Primary {
			one["primary"] = true
		}
		addresses = append(addresses, one)
	}
	for name, list := range map[string][]any{"emails": emails, "phoneNumbers": phones, "addresses": addresses} {
		if len(list) > 0 {
			o[name] = list
		}
	}
}

func extensionTree(o object, d *person.Details) {
	p, dir := &d.Profile, &d.Directory
	work := object{}
	put(work, "employeeNumber", dir.EmployeeNumber)
	put(work, "costCenter", dir.CostCenter)
	put(work, "organization", dir.Organization)
	put(work, "division", dir.Division)
	put(work, "department", dir.Department)
	if dir.Manager != "" {
		work["manager"] = object{"value": dir.Manager}
	}
	schemas := []any{coreUser}
	if len(work) > 0 {
		o[enterprise] = work
		schemas = append(schemas, enterprise)
	}
	ours := object{"state": string(d.State), "partition": d.Partition}
	for _, e := range p.EmailAddresses {
		if e.Primary {
			ours["emailVerified"] = e.Verified
		}
	}
	put(ours, "initials", p.Name.Initials)
	put(ours, "gender", p.Gender)
	put(ours, "dateOfBirth", p.DateOfBirth)
	put(ours, "referenceId", p.ReferenceID)
	var custom []any
	for _, c := range p.CustomAttributes {
		one := object{"name": c.Name}
		put(one, "value", c.Value)
		custom = append(custom, one)
	}
	if len(custom) > 0 {
		ours["customAttributes"] = custom
	}
	o[ourUser] = ours
	o["schemas"] = append(schemas, ourUser)
}

// describe adds meta without the version.
func (s *Server) describe(o object, t *resourceType, id string, created, changed time.Time) {
	o["meta"] = object{
		"resourceType": t.name, "created": stamp(created), "lastModified": stamp(changed), "location": s.location(t, id),
	}
}

// version adds the ETag of the resource's contents. (RFC 7644 3.14)
func version(o object) {
	raw, _ := json.Marshal(o) //nolint:errchkjson // texts, booleans, lists and maps of them
	sum := sha256.Sum256(raw)
	setVersion(o, base64.RawURLEncoding.EncodeToString(sum[:12]))
}

func setVersion(o object, v string) {
	if meta, ok := o["meta"].(object); ok {
		meta["version"] = `W/"` + v + `"`
	}
}

// stamp writes a time as storage keeps it, so a person has one version before and after it was stored.
func stamp(t time.Time) string {
	return t.UTC().Round(time.Microsecond).Format("2006-01-02T15:04:05.000Z")
}

func (s *Server) location(t *resourceType, id string) string {
	return s.deps.Issuer + prefix + t.endpoint + "/" + url.PathEscape(id)
}

// text returns a string member of a resource.
func text(o object, name string) string {
	v, _ := o[name].(string)
	return v
}

// applyUser sets a person from a whole resource. What a resource cannot express stays as it is.
func applyUser(d *person.Details, o object) {
	p, dir := &d.Profile, &d.Directory
	d.Username = text(o, "userName")
	switch active, said := o["active"].(bool); {
	case said && active && d.State != person.Active && d.State != person.Invited: // only the person accepts an invitation
		d.State = person.Active
	case said && !active && d.State == person.Active:
		d.State = person.Blocked
	}
	name, _ := o["name"].(object)
	p.Name.FirstName, p.Name.LastName = text(name, "givenName"), text(name, "familyName")
	p.Name.DisplayName = text(o, "displayName")
	if p.Name.DisplayName == "" {
		p.Name.DisplayName = text(name, "formatted")
	}
	dir.FormattedName, dir.MiddleName = text(name, "formatted"), text(name, "middleName")
	dir.HonorificPrefix, dir.HonorificSuffix = text(name, "honorificPrefix"), text(name, "honorificSuffix")
	dir.ExternalID, dir.NickName, dir.ProfileURL = text(o, "externalId"), text(o, "nickName"), text(o, "profileUrl")
	dir.Title, dir.UserType, dir.Timezone = text(o, "title"), text(o, "userType"), text(o, "timezone")
	dir.Language, p.PreferredLocale = text(o, "preferredLanguage"), text(o, "locale")
	if _, err := language.Parse(dir.Language); p.PreferredLocale == "" && err == nil {
		p.PreferredLocale = dir.Language // the language of pages
	}
	p.EmailAddresses, p.PhoneNumbers, p.Addresses = emailsOf(o), phonesOf(o), addressesOf(o, p.Addresses)
	dir.Plurals = nil
	for _, name := range pluralNames {
		for _, one := range each(o, name) {
			if dir.Plurals == nil {
				dir.Plurals = map[string][]person.Plural{}
			}
			dir.Plurals[name] = append(dir.Plurals[name], person.Plural{
				Value: text(one, "value"), Display: text(one, "display"), Type: text(one, "type"), Primary: one["primary"] == true,
			})
		}
	}
	work, _ := o[enterprise].(object)
	dir.EmployeeNumber, dir.CostCenter, dir.Organization = text(work, "employeeNumber"), text(work, "costCenter"), text(work, "organization")
	dir.Division, dir.Department = text(work, "division"), text(work, "department")
	manager, _ := work["manager"].(object)
	dir.Manager = text(manager, "value")
	ours, _ := o[ourUser].(object)
	p.Name.Initials, p.Gender, p.DateOfBirth, p.ReferenceID = text(ours, "initials"), text(ours, "gender"), text(ours, "dateOfBirth"),
		text(ours, "referenceId")
	p.CustomAttributes = nil
	for _, one := range each(ours, "customAttributes") {
		p.CustomAttributes = append(p.CustomAttributes, person.CustomAttribute{Name: text(one, "name"), Value: text(one, "value")})
	}
}

const emailVerified = "emailVerified"

// saysVerified returns what a resource says about the primary address. ok is false if it says nothing.
func saysVerified(o object) (said, ok bool) {
	ours, _ := o[ourUser].(object)
	said, ok = ours[emailVerified].(bool)
	return said, ok
}

// vouch marks what was verified before and is the same, and the primary address as the client says.
func vouch(p, before *person.Profile, o object) {
	p.KeepVerified(before)
	said, ok := saysVerified(o)
	if !ok {
		return
	}
	at := max(0, slices.IndexFunc(p.EmailAddresses, func(e person.EmailAddress) bool { return e.Primary }))
	if at < len(p.EmailAddresses) {
		p.EmailAddresses[at].Verified = said
	}
}

// each returns the complex values of an attribute.
func each(o object, name string) (out []object) {
	list, _ := o[name].([]any)
	for _, v := range list {
		if one, ok := v.(object); ok {
			out = append(out, one)
		}
	}
	return out
}

func emailsOf(o object) (out []person.EmailAddress) {
	for _, one := range each(o, "emails") {
		out = append(out, person.EmailAddress{Value: text(one, "value"), Tag: text(one, "type"), Primary: one["primary"] == true})
	}
	return out
}

func phonesOf(o object) (out []person.PhoneNumber) {
	for _, one := range each(o, "phoneNumbers") {
		out = append(out, person.PhoneNumber{Value: text(one, "value"), Tag: text(one, "type"), Primary: one["primary"] == true})
	}
	return out
}

// addressesOf keeps the parts of an address that a resource cannot express, if its street is the same as before.
func addressesOf(o object, before []person.Address) (out []person.Address) {
	for _, one := range each(o, "addresses") {
		a := person.Address{StreetName: text(one, "streetAddress")}
		i := slices.IndexFunc(before, func(b person.Address) bool { return b.Street() == a.StreetName && b.Tag == text(one, "type") })
		if i >= 0 {
			a = before[i]
		} else if a.StreetName == "" {
			a.StreetName = strings.Join(strings.FieldsFunc(text(one, "formatted"), func(r rune) bool { return r == '\n' || r == '\r' }), ", ")
		}
		a.City, a.Region, a.PostalCode = text(one, "locality"), text(one, "region"), text(one, "postalCode")
		a.CountryCode, a.Tag, a.Primary = text(one, "country"), text(one, "type"), one["primary"] == true
		out = append(out, a)
	}
	return out
}

// groupIDs returns a function that looks up the id of a group of the partition by its name, and keeps it in known.
func (s *Server) groupIDs(tx storage.Tx, c *call, known map[string]string) func(string) (string, error) {
	return func(name string) (string, error) {
		id, ok := known[name]
		if !ok {
			var err error
			if id, err = s.deps.Identity.Person.GroupID(tx, c.partition, name); err != nil {
				return "", err
			}
			known[name] = id
		}
		return id, nil
	}
}
