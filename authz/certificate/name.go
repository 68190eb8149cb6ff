package certificate

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Distinguished names (RFC 4514). A name is compared by its structure: the same attributes with the same values in the
// same order. Text that only looks alike, such as a comma inside of a value, is another name.

// attribute is one type with its value.
type attribute struct{ kind, value string } // kind is an OID in dots

// relative is one step of a name. Its attributes are a set, kept in order.
type relative []attribute

// kinds are the OIDs of the short names that RFC 4514 and certificate tools use.
var kinds = map[string]string{
	"CN": "2.5.4.3", "SN": "2.5.4.4", "SERIALNUMBER": "2.5.4.5", "C": "2.5.4.6", "L": "2.5.4.7", "ST": "2.5.4.8", "S": "2.5.4.8",
	"STREET": "2.5.4.9", "O": "2.5.4.10", "OU": "2.5.4.11", "TITLE": "2.5.4.12", "BUSINESSCATEGORY": "2.5.4.15", "POSTALCODE": "2.5.4.17",
	"GN": "2.5.4.42", "GIVENNAME": "2.5.4.42", "INITIALS": "2.5.4.43", "DNQUALIFIER": "2.5.4.46", "PSEUDONYM": "2.5.4.65",
	"ORGANIZATIONIDENTIFIER": "2.5.4.97", "UID": "0.9.2342.19200300.100.1.1", "DC": "0.9.2342.19200300.100.1.25",
	"EMAILADDRESS": "1.2.840.113549.1.9.1", "E": "1.2.840.113549.1.9.1",
}

// parseDN reads a name in the form of RFC 4514, the last step of the certificate first. Spaces around separators are
// allowed, as certificate tools write them.
func parseDN(text string) ([]relative, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("is not UTF-8")
	}
	r := nameReader{rest: text}
	var out []relative
	for step := relative(nil); ; {
		a, err := r.attribute()
		if err != nil {
			return nil, err
		}
		step = append(step, a)
		switch r.next() {
		case '+':
			continue
		case ',':
			out, step = append(out, step.sorted()), nil
		default:
			return append(out, step.sorted()), nil
		}
	}
}

func (r relative) sorted() relative {
	slices.SortFunc(r, func(a, b attribute) int { return strings.Compare(a.kind+"="+a.value, b.kind+"="+b.value) })
	return r
}

type nameReader struct{ rest string }

// next takes the separator. 0: the end
func (r *nameReader) next() byte {
	if r.rest == "" {
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *nameReader) attribute() (a attribute, err error) {
	name, rest, ok := strings.Cut(r.rest, "=")
	name = strings.Trim(name, " ")
	if !ok || name == "" {
		return a, errors.New("want a distinguished name such as CN=robot,O=Example,C=NL")
	}
	if a.kind, err = kindOf(name); err != nil {
		return a, err
	}
	r.rest = strings.TrimLeft(rest, " ")
	if strings.HasPrefix(r.rest, "#") {
		a.value, err = r.hexValue()
	} else {
		a.value, err = r.value()
	}
	if err == nil && a.value == "" {
		err = fmt.Errorf("%s has no value", name)
	}
	return a, err
}

func kindOf(name string) (string, error) {
	if oid, ok := kinds[strings.ToUpper(name)]; ok {
		return oid, nil
	}
	oid := name
	if len(name) > 4 && strings.EqualFold(name[:4], "OID.") {
		oid = name[4:]
	}
	parts := strings.Split(oid, ".")
	for _, part := range parts {
		if n, err := strconv.ParseUint(part, 10, 31); err != nil || strconv.FormatUint(n, 10) != part || len(parts) < 2 {
			return "", fmt.Errorf("%q is not a known type of attribute: write its OID, such as 2.5.4.3 for CN", name)
		}
	}
	return oid, nil
}

// hexValue reads the encoding of a value: a number sign and hexadecimal digits.
func (r *nameReader) hexValue() (string, error) {
	end := strings.IndexAny(r.rest, ",+")
	if end < 0 {
		end = len(r.rest)
	}
	raw, err := hex.DecodeString(strings.TrimRight(r.rest[1:end], " "))
	r.rest = r.rest[end:]
	if err != nil {
		return "", errors.New("has a value that is not hexadecimal after #")
	}
	var v any
	if rest, err := asn1.Unmarshal(raw, &v); err == nil && len(rest) == 0 {
		if s, ok := v.(string); ok {
			return s, nil
		}
	}
	return "", errors.New("has a value after # that is not a text in DER")
}

// value reads a text up to the next separator, with the escapes of RFC 4514 2.4.
func (r *nameReader) value() (string, error) {
	var b strings.Builder
	keep := 0 // the length up to the last character that is not a bare space
	for r.rest != "" && r.rest[0] != ',' && r.rest[0] != '+' {
		c := r.next()
		switch {
		case strings.IndexByte("\";<>", c) >= 0 || c == 0:
			return "", fmt.Errorf("has %q without a backslash before it", c)
		case c != '\\':
			if b.WriteByte(c); c != ' ' {
				keep = b.Len()
			}
			continue
		}
		if r.rest == "" {
			return "", errors.New("ends with a backslash")
		}
		if strings.IndexByte(" \"#+,;<=>\\", r.rest[0]) >= 0 {
			b.WriteByte(r.next())
		} else {
			if len(r.rest) < 2 {
				return "", errors.New("has a backslash before what needs none")
			}
			one, err := hex.DecodeString(r.rest[:2])
			if err != nil {
				return "", errors.New("has a backslash before what needs none")
			}
			b.WriteByte(one[0])
			r.rest = r.rest[2:]
		}
		keep = b.Len()
	}
	out := b.String()[:keep]
	if !utf8.ValidString(out) {
		return "", errors.New("has a value that is not UTF-8")
	}
	return out, nil
}

// matchesDN reports whether a name is that of a certificate.
func matchesDN(name string, raw []byte) bool {
	want, err := parseDN(name)
	if err != nil {
		return false
	}
	var is pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &is); err != nil || len(rest) > 0 || len(is) != len(want) {
		return false
	}
	for i, step := range want {
		if !slices.Equal(step, relativeOf(is[len(is)-1-i])) {
			return false
		}
	}
	return true
}

// relativeOf returns a step of a certificate, or nil for one with a value that is not a text.
func relativeOf(set pkix.RelativeDistinguishedNameSET) relative {
	var out relative
	for _, a := range set {
		text, ok := a.Value.(string)
		if !ok {
			return nil
		}
		out = append(out, attribute{a.Type.String(), text})
	}
	return out.sorted()
}

// NameOf writes the subject of a certificate in the form of RFC 4514, as subject_dn wants it.
func NameOf(raw []byte) string {
	var is pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &is); err != nil || len(rest) > 0 {
		return ""
	}
	return is.String()
}
