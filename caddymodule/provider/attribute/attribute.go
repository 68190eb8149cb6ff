// Package attribute knows names that identity providers give to the attributes of people, and finds mappings to details
// that are the wrong way round.
package attribute

import (
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// directoryAttributes are attributes of directories, in lower case, that are not also names of details.
var directoryAttributes = []string{
	"uid", "mail", "cn", "sn", "ou", "givenname", "displayname", "samaccountname", "userprincipalname", "telephonenumber", "memberof",
	"objectguid", "objectsid", "entryuuid",
	"employeenumber", "employeeid", "departmentnumber", "preferredlanguage", "department", "title",
}

// openIDNames are claims of OpenID providers that name the person.
var openIDNames = []string{"preferred_username", "sub"}

// A Foreign function reports whether a word is an attribute at providers of one kind, and not a detail.
type Foreign func(detail string) bool

// Swapped reports whether a pair is in the wrong order, with the detail first.
func Swapped(from, to string, foreign Foreign) bool {
	return settings.IsClaim(from) && (foreign(to) || strings.Contains(to, ":") && !strings.Contains(from, ":"))
}

// InDirectory reports whether a detail is the name of an attribute of directories.
func InDirectory(detail string) bool {
	return slices.Contains(directoryAttributes, strings.ToLower(detail))
}

// InOpenID reports whether a detail is the name of a claim that names people at OpenID providers.
func InOpenID(detail string) bool { return slices.Contains(openIDNames, detail) }

// InHeader reports whether a detail is the name of a header.
func InHeader(detail string) bool { return strings.Contains(detail, "-") }

// Nowhere is for providers whose attributes cannot be taken for details.
func Nowhere(string) bool { return false }
