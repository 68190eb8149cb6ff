package ldap

import (
	"strings"
	"unicode"

	ldapv3 "github.com/go-ldap/ldap/v3"
	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	maxName     = 256  // characters of a username
	maxPassword = 1024 // bytes
)

// typeable reports whether a directory can be asked about a username at all.
func typeable(name string) bool {
	return name != "" && strings.TrimSpace(name) == name && idp.IsText(name, maxName)
}

// tryable reports whether a password can be sent. A server takes a DN with an empty password for a wish to be no one,
// and says yes. (RFC 4513 5.1.2) Some cut a password at NUL, and some remove spaces.
func tryable(password string) bool {
	return strings.TrimSpace(password) != "" && len(password) <= maxPassword && !strings.ContainsRune(password, 0)
}

// filterFor puts values into a filter, so they can only be values. (RFC 4515 3)
func filterFor(pattern string, pairs ...string) string {
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = escapeFilter(pairs[i])
	}
	return strings.NewReplacer(pairs...).Replace(pattern)
}

// escapeFilter writes a value of a filter: every byte that is not a letter or digit of ASCII as its number.
func escapeFilter(s string) string {
	const hex = "0123456789abcdef"
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; isPlain(c) {
			out.WriteByte(c)
		} else {
			out.WriteString(string([]byte{'\\', hex[c>>4], hex[c&15]}))
		}
	}
	return out.String()
}

// escapeDN writes a value of a DN, likewise. (RFC 4514 2.4)
func escapeDN(s string) string { return escapeFilter(s) }

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// bindName is the name by which a person binds who has typed name. "" if it cannot be one.
func (c *Config) bindName(name string) string {
	if c.templateIsDN() {
		return strings.Replace(c.Template, "%s", escapeDN(name), 1)
	}
	if strings.ContainsAny(name, "@\\/\"[]:;|=,+*?<> ") { // Active Directory reads other forms of names too
		return ""
	}
	return strings.Replace(c.Template, "%s", name, 1)
}

// spelling is the same for all names that a directory could take for one: it compares regardless of case, width, the
// number of spaces, characters without a width, and at Active Directory of accents.
func spelling(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Mn, unicode.Cf, unicode.Cc, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKD.String(name))
	return strings.Join(strings.Fields(name), " ")
}

// sameDN reports whether two DNs are the same, regardless of case and of how they are written.
func sameDN(a, b string) bool {
	x, err := ldapv3.ParseDN(a)
	if err != nil {
		return false
	}
	y, err := ldapv3.ParseDN(b)
	return err == nil && x.EqualFold(y)
}

// firstName is the value at the front of a DN: the name of a group.
func firstName(dn string) string {
	d, err := ldapv3.ParseDN(dn)
	if err != nil || len(d.RDNs) == 0 || len(d.RDNs[0].Attributes) != 1 {
		return ""
	}
	return d.RDNs[0].Attributes[0].Value
}
