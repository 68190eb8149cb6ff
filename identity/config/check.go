package config

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/config/address"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/rest"
)

const (
	maxProblems = 20
	maxText     = 4096      // characters of a text of several lines
	maxMessage  = 4000      // characters of a message, as the pages take it
	maxMetadata = 256 << 10 // bytes of SAML metadata
)

// checker collects what is wrong, with its path.
type checker struct {
	problems []rest.Problem
	// stored are the invalid texts that an earlier version has accepted. They hinder no other change.
	stored map[flaw]bool
	// flaws are the invalid texts of this check.
	flaws []flaw
}

// flaw is an invalid text and its place, whatever its number in an array is.
type flaw struct{ path, text, problem string }

func (c *checker) add(path, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, rest.Problem{Path: path, Problem: fmt.Sprintf(format, args...)})
	}
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// addText is add for an invalid text.
func (c *checker) addText(path, text, problem string) {
	f := flaw{indexes.ReplaceAllString(path, "[]"), text, problem}
	c.flaws = append(c.flaws, f)
	if !c.stored[f] {
		c.add(path, "%s", problem)
	}
}

// flaws returns the invalid texts of the units.
func (u *Units) flaws() map[flaw]bool {
	c := &checker{}
	for _, un := range table {
		u.visit(un, visitor{value: c.value, name: c.name})
	}
	out := make(map[flaw]bool, len(c.flaws))
	for _, f := range c.flaws {
		out[f] = true
	}
	return out
}

// validate returns what is wrong with the units, or nil. What was wrong with from in the same way is passed over.
func (u *Units) validate(from *Units) error {
	c := &checker{stored: from.flaws()}
	for _, un := range table {
		u.visit(un, visitor{value: c.value, name: c.name})
		if un.check != nil {
			un.check(u, c)
		}
	}
	if len(c.problems) > 0 {
		return rest.Invalid(c.problems...)
	}
	return nil
}

// value checks a value by the tag of its field:
//
//	most,N[,kind...]  an array or object of at most N; kind is that of strings in an array, or of names in an object
//	int,MIN,MAX       a number
//	enum,A|B          one of these; an empty alternative allows the empty string
//	KIND[,N]          a string of a kind (kinds), of at most N characters. The empty string is always valid
func (c *checker) value(v reflect.Value, p place) {
	word, rest, _ := strings.Cut(p.tag, ",")
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		most, _, _ := strings.Cut(rest, ",")
		if limit, _ := strconv.Atoi(most); v.Len() > limit {
			c.add(p.at, "has more than %s entries", most)
		}
	case reflect.Int:
		least, most, _ := strings.Cut(rest, ",")
		low, _ := strconv.Atoi(least)
		high, _ := strconv.Atoi(most)
		if n := v.Int(); n < int64(low) || n > int64(high) {
			c.add(p.at, "must be from %s to %s", least, most)
		}
	case reflect.String:
		if word == "enum" {
			if !slices.Contains(strings.Split(rest, "|"), v.String()) {
				c.add(p.at, "must be one of %s", strings.Join(strings.Split(strings.TrimPrefix(rest, "|"), "|"), ", "))
			}
			return
		}
		c.text(v.String(), p.at, p.tag)
	}
}

// name checks a name that the caller chose.
func (c *checker) name(name string, p place) {
	if name == "" {
		c.add(strings.TrimSuffix(p.at, "."), "has a member without a name")
	}
	c.text(name, p.at, p.tag)
}

// kinds are the kinds of strings: what they can hold, and their greatest length unless the tag says otherwise.
var kinds = map[string]struct {
	most  int
	check func(s string) error
}{
	"text":        {256, isLine},
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

func (c *checker) text(s, path, tag string) {
	word, most, _ := strings.Cut(tag, ",")
	kind := kinds[word]
	limit := kind.most
	if n, err := strconv.Atoi(most); err == nil {
		limit = n
	}
	switch {
	case s == "" && word == "whitelisted":
		c.add(path, "is empty")
	case s == "":
	case len(s) > 4*limit || utf8.RuneCountInString(s) > limit:
		c.addText(path, s, fmt.Sprintf("has more than %d characters", limit))
	default:
		if err := kind.check(s); err != nil {
			c.addText(path, s, err.Error())
		}
	}
}

// shown shortens a name that the caller chose.
func shown(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64]) + "…"
	}
	return name
}

func isLine(s string) error {
	if strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' }) {
		return errors.New("has a control character")
	}
	return nil
}

func isLines(s string) error {
	return isLine(strings.NewReplacer("\n", "", "\r", "", "\t", "").Replace(s))
}

func isID(s string) error {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" || strings.Trim(s, ".") == "" {
		return errors.New("must be letters, digits, dots, - and _")
	}
	return nil
}

// isKey: the key of a message or attribute: printable, and no space.
func isKey(s string) error {
	if strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }) {
		return errors.New("must be printable, without spaces")
	}
	return nil
}

// isMessage: the key of a message, which is also a part of the path where it is deleted.
func isMessage(s string) error {
	if strings.ContainsAny(s, `/\`) || s == "." || s == ".." || s == "batch" {
		return errors.New(`must not have a / or \, and not be ., .. or batch: it could not be deleted`)
	}
	return isKey(s)
}

// isLocale: a language tag with hyphens or underlines, and variants of the document such as nl_NL_informal.
func isLocale(s string) error {
	parts := strings.Split(strings.ReplaceAll(s, "-", "_"), "_")
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || slices.Contains(parts, "") || len(parts) > 4 {
		return errors.New("must be a locale such as nl, nl_NL or nl_NL_informal")
	}
	if _, err := xlanguage.ParseBase(parts[0]); err != nil {
		return errors.New("must begin with a language such as nl")
	}
	return nil
}

func isEmail(s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || isLine(s) != nil {
		return errors.New("must be an e-mail address")
	}
	return nil
}

func isRegex(s string) error {
	_, err := compileWhole(s)
	return err
}

func isCIDR(s string) error {
	if _, err := netip.ParsePrefix(s); err != nil {
		if _, err := netip.ParseAddr(s); err != nil {
			return errors.New("must be an address range such as 10.0.0.0/8")
		}
	}
	return nil
}

// isScope: RFC 6749 3.3.
func isScope(s string) error {
	if strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
		return errors.New("must be a scope: printable ASCII without spaces, quotes and backslashes")
	}
	return nil
}

// isMetadata: XML of SAML metadata, or where to find it. Only its beginning is checked here; the provider that uses it
// reads the rest.
func isMetadata(s string) error {
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		_, err := address.Check(s)
		return err
	}
	bad := errors.New("must be SAML metadata, or the https URL of it")
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
			if el.Name.Space != "urn:oasis:names:tc:SAML:2.0:metadata" || el.Name.Local != "EntityDescriptor" && el.Name.Local != "EntitiesDescriptor" {
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
		return errors.New("must be a picture in Base64")
	}
	return page.CheckPicture(raw)
}
