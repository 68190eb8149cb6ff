package importer

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// ldifReader reads entries of LDIF (RFC 2849) that describe persons. Others, such as organisational units, are skipped.
type ldifReader struct {
	lines
	now     time.Time // accounts that have ended by then are inactive
	skipped int
	groups  memberships // of other entries of the file. nil: none
}

func newLDIF(r *bufio.Reader, now time.Time) *ldifReader {
	return &ldifReader{lines: lines{in: r}, now: now}
}

// Skipped implements Skipper.
func (l *ldifReader) Skipped() int { return l.skipped }

// persons are the object classes of persons.
var persons = []string{"person", "inetorgperson", "organizationalperson", "posixaccount", "account", "user", "shadowaccount"}

// Next implements Reader.
func (l *ldifReader) Next() (p Person, line int, err error) {
	for {
		entry, line, err := l.entry()
		if err != nil {
			return p, line, err
		}
		if !entry.isPerson() {
			l.skipped++
			continue
		}
		p, problem := entry.person(l.now)
		if problem != "" {
			return Person{}, line, &LineError{line, problem}
		}
		for _, member := range []string{"dn:" + normalDN(entry.first("dn")), "uid:" + strings.ToLower(entry.first("uid"))} {
			for _, g := range l.groups[member] {
				if !slices.Contains(p.Groups, g) {
					p.Groups = append(p.Groups, g)
				}
			}
		}
		return p, line, nil
	}
}

// memberships are the groups of persons that entries of groups name, by the name of the person in them.
type memberships map[string][]string

// readMemberships reads the groups of an LDIF file: groupOfNames, groupOfUniqueNames, group, posixGroup.
func readMemberships(r io.Reader) (memberships, error) {
	groups, l := memberships{}, newLDIF(bufio.NewReader(r), time.Time{})
	for {
		e, _, err := l.entry()
		switch {
		case errors.Is(err, io.EOF):
			return groups, nil
		case errors.As(err, new(*LineError)):
			continue // the reader of the persons reports it
		case err != nil:
			return nil, err
		}
		name := e.first("cn")
		if name == "" {
			name = leaf(e.first("dn"))
		}
		if e.isPerson() || name == "" {
			continue
		}
		for attribute, kind := range map[string]string{"member": "dn:", "uniquemember": "dn:", "memberuid": "uid:"} {
			for _, v := range e[attribute] {
				if kind == "dn:" {
					v = normalDN(v)
				}
				groups[kind+strings.ToLower(v)] = append(groups[kind+strings.ToLower(v)], name)
			}
		}
	}
}

// normalDN is a distinguished name as it is compared: in lower case, without blanks around its parts.
func normalDN(dn string) string {
	parts := strings.Split(strings.ToLower(dn), ",")
	for i, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		parts[i] = strings.TrimSpace(name) + "=" + strings.TrimSpace(value)
	}
	return strings.Join(parts, ",")
}

// entry is the values of one entry by attribute, in lower case and without options.
type entry map[string][]string

// entry returns the next entry. After a *LineError the next call goes on with the following entry.
func (l *ldifReader) entry() (entry, int, error) {
	e, start, size, problem := entry{}, 0, 0, ""
	for {
		raw, at, err := l.unfolded()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, l.number, err
		}
		if len(raw) == 0 || err != nil { // an empty line ends an entry
			switch {
			case problem != "":
				return nil, start, &LineError{start, problem}
			case len(e) > 0:
				return e, start, nil
			case err != nil:
				return nil, l.number, err
			}
			continue
		}
		if start == 0 {
			start = at
		}
		if size += len(raw); size > maxRecord {
			return nil, start, errTooLong
		}
		if raw[0] == '#' || problem != "" {
			continue
		}
		name, value, wrong := attributeOf(raw)
		if problem = wrong; problem == "" && !(name == "version" && len(e) == 0) {
			e[name] = append(e[name], value)
		}
		if len(e) == 0 && problem == "" {
			start = 0 // the version line is not part of an entry
		}
	}
}

// unfolded returns a line, and its number, with those that continue it, which begin with a space. (RFC 2849 note 2)
func (l *ldifReader) unfolded() (line string, at int, err error) {
	raw, err := l.next()
	if err != nil {
		return "", l.number, err
	}
	if line, at = string(raw), l.number; line == "" {
		return "", at, nil
	}
	for len(line) <= maxRecord {
		more, err := l.next()
		if err != nil {
			break // the next call returns it again
		}
		if len(more) == 0 || more[0] != ' ' {
			l.unread()
			break
		}
		line += string(more[1:])
	}
	return line, at, nil
}

// attributeOf reads name: text or name:: Base64. References to other files are not followed.
func attributeOf(line string) (name, value, problem string) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return "", "", "a line is neither an attribute nor a comment"
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ";")
	switch {
	case strings.HasPrefix(value, "<"):
		return "", "", "a value is elsewhere (:<), which is not fetched"
	case strings.HasPrefix(value, ":"):
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value[1:]))
		if err != nil {
			return "", "", "a value is not Base64"
		}
		value = string(raw)
	default:
		value = strings.TrimLeft(value, " ")
	}
	if name != "jpegphoto" && !utf8.ValidString(value) {
		value = "" // a certificate or a picture
	}
	return name, value, ""
}

func (e entry) first(names ...string) string {
	for _, n := range names {
		for _, v := range e[n] {
			if v != "" {
				return v
			}
		}
	}
	return ""
}

func (e entry) isPerson() bool {
	for _, class := range e["objectclass"] {
		for _, p := range persons {
			if strings.EqualFold(class, p) {
				return true
			}
		}
	}
	return false
}

// person returns the person of an entry (RFC 2798, RFC 4519), or what is wrong with it.
func (e entry) person(now time.Time) (p Person, problem string) {
	if change := e.first("changetype"); change != "" && !strings.EqualFold(change, "add") {
		return p, "a change of an entry is no person: export entries"
	}
	p = Person{
		Username: e.first("uid", "samaccountname", "userprincipalname", "mail"), Name: e.first("displayname", "cn"),
		GivenName:  e.first("givenname"),
		FamilyName: e.first("sn"), Email: e.first("mail"), Locale: e.first("preferredlanguage"), ExternalID: e.first("entryuuid", "objectguid"),
	}
	if p.Username == "" {
		return p, "the entry has neither uid nor sAMAccountName nor mail"
	}
	switch pw := e.first("userpassword"); {
	case strings.HasPrefix(strings.ToUpper(pw), "{CLEARTEXT}"):
		p.Password = pw[len("{CLEARTEXT}"):]
	case isHash(pw):
		p.PasswordHash = pw
	default:
		p.Password = pw
	}
	if i := e.first("initials"); i != "" {
		p.profile().Name.Initials = i
	}
	if mails := e["mail"]; len(mails) > 1 {
		for i, v := range mails {
			p.profile().EmailAddresses = append(p.profile().EmailAddresses, person.EmailAddress{Value: v, Primary: i == 0})
		}
	}
	for _, kind := range []struct{ name, tag string }{{"telephonenumber", "work"}, {"mobile", "mobile"}, {"homephone", "home"}} {
		for _, v := range e[kind.name] {
			p.profile().PhoneNumbers = append(p.profile().PhoneNumbers, person.PhoneNumber{Value: v, Tag: kind.tag})
		}
	}
	if street, city, code := e.first("street", "streetaddress"), e.first("l"), e.first("postalcode"); street != "" ||
		city != "" || code != "" {
		*p.address() = person.Address{StreetName: street, City: city, PostalCode: code, Region: e.first("st"), CountryCode: e.first("c")}
	}
	for _, dn := range e["memberof"] {
		if g := leaf(dn); g != "" {
			p.Groups = append(p.Groups, g)
		}
	}
	ends, limited := e.ends()
	p.Inactive = e.isDisabled() || limited && !ends.After(now)
	if limited && !p.Inactive {
		p.note("the end of the account on " + ends.UTC().Format(time.DateOnly) + " does not come")
	}
	return p, ""
}

// isDisabled reports whether the directory lets no one sign in to the account: OpenLDAP's and 389's policies (Behera
// draft 5.3.3), Active Directory's ACCOUNTDISABLE (MS-ADTS 2.2.16), eDirectory's, PingDirectory's and Samba's marks.
func (e entry) isDisabled() bool {
	for _, name := range []string{
		"pwdaccountlockedtime", "nsaccountlock", "logindisabled", "ds-pwp-account-disabled", "msds-useraccountdisabled",
	} {
		if v := e.first(name); v != "" && !strings.EqualFold(v, "false") {
			return true
		}
	}
	control, _ := strconv.ParseInt(e.first("useraccountcontrol"), 10, 64)
	return control&2 != 0 || strings.Contains(e.first("sambaacctflags"), "D")
}

// ends returns when the account ends, if it does: in days since 1970 (shadow(5)), or as accountExpires of Active
// Directory in units of 100 ns since 1601, where 0 and the largest number mean never.
// The earlier one counts.
func (e entry) ends() (at time.Time, limited bool) {
	if days, err := strconv.ParseInt(e.first("shadowexpire"), 10, 32); err == nil && days >= 0 {
		at, limited = time.Unix(days*86400, 0), true
	}
	const epoch = 11_644_473_600 // seconds from 1601 to 1970
	if n, err := strconv.ParseInt(e.first("accountexpires"), 10, 64); err == nil && n > 0 && n != math.MaxInt64 {
		if end := time.Unix(n/1e7-epoch, 0); !limited || end.Before(at) {
			at, limited = end, true
		}
	}
	return at, limited
}

// leaf is the first value of a distinguished name (RFC 4514), which names a group.
func leaf(dn string) string {
	_, rest, ok := strings.Cut(dn, "=")
	if !ok {
		return ""
	}
	var out strings.Builder
	for i := 0; i < len(rest) && rest[i] != ',' && rest[i] != '+'; i++ {
		if rest[i] == '\\' && i+1 < len(rest) {
			i++
		}
		out.WriteByte(rest[i])
	}
	return strings.TrimSpace(out.String())
}
