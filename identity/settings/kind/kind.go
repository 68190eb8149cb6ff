// Package kind defines the kinds of text in the settings, and what each can contain.
package kind

import (
	"encoding/base64"
	"encoding/xml"
	"net/mail"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/settings/address"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	maxText     = 4096      // characters of a text of several lines
	maxMetadata = 256 << 10 // bytes of SAML metadata
)

// Kind is a kind of texts: their greatest length in characters, unless the member has another one, and what is wrong
// with one. The empty text is of every kind.
type Kind struct {
	Most  int
	Check func(s string) error
}

// All are the kinds of texts, by their names.
var All = map[string]Kind{
	"text":        {256, isText},
	"lines":       {maxText, isLines},
	"secret":      {1024, isLine},
	"id":          {64, isID},
	"key":         {256, isKey},
	"message":     {256, isMessage},
	"locale":      {35, isLocale},
	"email":       {254, isEmail},
	"regex":       {512, isRegex},
	"cidr":        {64, isCIDR},
	"scope":       {256, isScope},
	"keypair":     {128, isLine}, // whether it exists is checked in the transaction that stores it
	"keytab":      {128, isLine}, // likewise
	"url":         {address.Most, func(s string) error { _, err := address.Check(s); return err }},
	"app":         {address.Most, address.CheckApp},
	"target":      {address.Most, address.CheckTarget},
	"origin":      {address.Most, address.CheckOrigin},
	"path":        {address.Most, address.CheckPath},
	"whitelisted": {address.Most, address.CheckPlain},
	"metadata":    {maxMetadata, isMetadata},
	"image":       {64 << 10, isImage},
}

func isLine(s string) error {
	if strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' }) {
		return coded.New("control", "has a control character")
	}
	return nil
}

// isText: a name of an application or an organisation stands in sentences, and must not turn them.
func isText(s string) error {
	if authn.Turns(s) {
		return coded.New("direction", "has a character that turns the direction of writing")
	}
	return isLine(s)
}

func isLines(s string) error {
	return isLine(strings.NewReplacer("\n", "", "\r", "", "\t", "").Replace(s))
}

func isID(s string) error {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" || strings.Trim(s, ".") == "" {
		return coded.New("id", "must be letters, digits, dots, - and _")
	}
	return nil
}

// isKey: the key of a message or attribute: printable, and no space.
func isKey(s string) error {
	if strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }) {
		return coded.New("key", "must be printable, without spaces")
	}
	return nil
}

// isMessage: the key of a message, which is also a part of the path where it is deleted.
func isMessage(s string) error {
	if strings.ContainsAny(s, `/\`) || s == "." || s == ".." || s == "batch" {
		return coded.New("message", `must not have a / or \, and not be ., .. or batch: it could not be deleted`)
	}
	return isKey(s)
}

// isLocale: a language tag with hyphens or underlines, and variants of the document such as nl_NL_informal.
func isLocale(s string) error {
	parts := strings.Split(strings.ReplaceAll(s, "-", "_"), "_")
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" ||
		slices.Contains(parts, "") || len(parts) > 4 {
		return coded.New("locale", "must be a locale such as nl, nl_NL or nl_NL_informal")
	}
	if _, err := xlanguage.ParseBase(parts[0]); err != nil {
		return coded.New("language", "must begin with a language such as nl")
	}
	return nil
}

func isEmail(s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || isLine(s) != nil {
		return coded.New("email", "must be an e-mail address")
	}
	return nil
}

func isRegex(s string) error {
	_, err := CompileWhole(s)
	return err
}

func isCIDR(s string) error {
	if _, err := netip.ParsePrefix(s); err != nil {
		if _, err := netip.ParseAddr(s); err != nil {
			return coded.New("cidr", "must be an address range such as 10.0.0.0/8")
		}
	}
	return nil
}

// isScope: RFC 6749 3.3.
func isScope(s string) error {
	if strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
		return coded.New("scope", "must be a scope: printable ASCII without spaces, quotes and backslashes")
	}
	return nil
}

// IsMetadata reports whether a text can be the metadata of a login method.
func IsMetadata(s string) bool { return isMetadata(s) == nil }

// isMetadata: XML of SAML metadata, or where to find it. Only its beginning is checked here; the provider that uses it
// reads the rest.
func isMetadata(s string) error {
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		_, err := address.Check(s)
		return err
	}
	bad := coded.New("metadata", "must be SAML metadata, or the https URL of it")
	dec := xml.NewDecoder(strings.NewReader(s))
	for {
		t, err := dec.Token()
		if err != nil {
			return bad
		}
		switch el := t.(type) {
		case xml.Directive: // a DOCTYPE
			return bad
		case xml.StartElement:
			if el.Name.Space != "urn:oasis:names:tc:SAML:2.0:metadata" || el.Name.Local != "EntityDescriptor" &&
				el.Name.Local != "EntitiesDescriptor" {
				return bad
			}
			return nil
		}
	}
}

// isImage: a raster picture. Only its head is read, so a small file that decodes to a huge picture costs nothing.
func isImage(s string) error {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return coded.New("base64", "must be a picture in Base64")
	}
	return web.CheckPicture(raw)
}

// CompileWhole compiles an expression that must match all of a text. Go's expressions run in linear time. Empty: nil.
func CompileWhole(expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil
	}
	// The expression is compiled alone too: one that closes our group would otherwise escape the anchors.
	if _, err := regexp.Compile(expr); err != nil {
		return nil, coded.New("regex", "is not a regular expression that can be taken")
	}
	re, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil {
		return nil, coded.New("regex", "is not a regular expression that can be taken")
	}
	return re, nil
}
