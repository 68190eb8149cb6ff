package ldap

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	ber "github.com/go-asn1-ber/asn1-ber"
	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Details with a special meaning. Operators map attributes to them.
const (
	detailUsername = "username"
	detailEmail    = "email"
)

const (
	attrMemberOf = "memberOf"
	attrGUID     = "objectGUID"
	attrControl  = "userAccountControl"
	attrExpires  = "accountExpires"
	attrChanged  = "pwdLastSet"
	attrUPN      = "userPrincipalName"
)

// Of directories other than Active Directory, which refuse a bind themselves, and which Refresh does not ask to bind.
const (
	attrLockedTime = "pwdAccountLockedTime" // OpenLDAP (draft-behera-ldap-password-policy 5.3.3)
	attrShadow     = "shadowExpire"         // days since 1970 (RFC 2307 5.3)

	lockedForGood = "000001010000Z"
)

var (
	// switches are true where an account is disabled: 389 Directory Server and FreeIPA, eDirectory, OpenDJ and Ping.
	switches = []string{"nsAccountLock", "loginDisabled", "ds-pwp-account-disabled"}
	// ends are the attributes with the end of an account: FreeIPA and MIT Kerberos, eDirectory, OpenLDAP.
	ends = []string{"krbPrincipalExpiration", "loginExpirationTime", "pwdEndTime"}
)

// identifiers are the attributes by which directories identify an entry for good, whatever its name becomes: OpenLDAP
// and others (RFC 4530), Active Directory, 389 Directory Server, FreeIPA, eDirectory.
var identifiers = []string{"entryUUID", attrGUID, "nsUniqueId", "ipaUniqueID", "GUID"}

// wanted are the attributes to ask for.
func (c *Config) wanted() []string {
	out := append([]string{attrControl, attrExpires, attrChanged, attrLockedTime, attrShadow}, slices.Concat(switches, ends)...)
	for _, a := range c.Mapping.Attributes {
		out = append(out, a.From)
	}
	if c.IdentifyBy != "" {
		out = append(out, c.IdentifyBy)
	} else {
		out = append(out, identifiers...)
	}
	if len(c.Groups.Map) > 0 && c.Groups.Base == "" {
		out = append(out, attrMemberOf)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(name string) bool {
		folded := strings.ToLower(name)
		defer func() { seen[folded] = true }()
		return seen[folded]
	})
}

// subjectOf returns the value that identifies an entry for good: as text, and as the directory has it.
func (c *Config) subjectOf(e *ldapv3.Entry) (subject string, raw []byte, err error) {
	names := identifiers
	if c.IdentifyBy != "" {
		names = []string{c.IdentifyBy}
	}
	for _, name := range names {
		all := e.GetEqualFoldRawAttributeValues(name)
		if len(all) == 0 {
			continue
		}
		values := texts(name, all)
		if len(all) != 1 || idp.Single(values) == "" {
			return "", nil, fmt.Errorf("the attribute %s that identifies a person does not have exactly one value", name)
		}
		return values[0], all[0], nil
	}
	return "", nil, fmt.Errorf("the entry has no attribute %s: set identify_by to one that names a person permanently, and let the account of bind read it", strings.Join(names, ", "))
}

// texts returns the values of an attribute as text. What is no text is written in hexadecimal digits.
func texts(name string, raw [][]byte) []string {
	out := make([]string, 0, len(raw))
	for _, v := range raw {
		switch {
		case strings.EqualFold(name, attrGUID) && len(v) == 16: // the first three parts have their bytes reversed
			out = append(out, fmt.Sprintf("%x-%x-%x-%x-%x", []byte{v[3], v[2], v[1], v[0]}, []byte{v[5], v[4]}, []byte{v[7], v[6]}, v[8:10], v[10:]))
		case utf8.Valid(v):
			out = append(out, string(v))
		default:
			out = append(out, hex.EncodeToString(v))
		}
	}
	return out
}

// identity converts an entry for the identity service.
func (p *Provider) identity(e *ldapv3.Entry) (*idp.Identity, error) {
	raw := map[string][]string{}
	for _, name := range p.cfg.wanted() {
		raw[name] = texts(name, e.GetEqualFoldRawAttributeValues(name))
	}
	for _, a := range p.cfg.Mapping.Attributes { // however the operator writes the name
		raw[a.From] = texts(a.From, e.GetEqualFoldRawAttributeValues(a.From))
	}
	for _, a := range e.Attributes {
		if name, option, ok := strings.Cut(a.Name, ";"); ok && strings.HasPrefix(strings.ToLower(option), "range=") {
			return nil, fmt.Errorf("the directory gives the attribute %s in parts, since it has so many values", idp.Printable(name))
		}
	}
	subject, held, err := p.cfg.subjectOf(e)
	if err != nil {
		return nil, err
	}
	details := p.mapping.Apply(raw)
	id := &idp.Identity{
		Subject: subject, Username: first(details[detailUsername]), Email: first(details[detailEmail]),
		Level: max(p.cfg.Level, 1), Details: details,
	}
	id.EmailVerified = id.Email != "" && p.cfg.EmailVerified
	id.Held = held
	return id, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Flags of userAccountControl. (MS-ADTS 2.2.16)
const accountDisabled = 0x2

// blocked returns a *idp.Rejection if the entry says that the account must not be used. An entry of another kind of
// directory has none of these attributes.
func blocked(e *ldapv3.Entry, now time.Time) error {
	if flags, err := strconv.ParseInt(e.GetEqualFoldAttributeValue(attrControl), 10, 64); err == nil && flags&accountDisabled != 0 {
		return rejections["533"]
	}
	// 100 nanoseconds since 1601; 0 and the largest number: never. (MS-ADTS 2.342)
	if at, err := strconv.ParseInt(e.GetEqualFoldAttributeValue(attrExpires), 10, 64); err == nil && at > 0 && at < 1<<62 {
		const epoch = 11644473600 // seconds from 1601 to 1970
		if !time.Unix(at/1e7-epoch, 0).After(now) {
			return rejections["701"]
		}
	}
	if e.GetEqualFoldAttributeValue(attrChanged) == "0" {
		return rejections["773"]
	}
	for _, name := range switches {
		if strings.EqualFold(e.GetEqualFoldAttributeValue(name), "true") {
			return rejections["533"]
		}
	}
	// A time is that of wrong passwords, which strangers can send; it ends by itself.
	if e.GetEqualFoldAttributeValue(attrLockedTime) == lockedForGood {
		return rejections["533"]
	}
	for _, name := range ends {
		if v := e.GetEqualFoldAttributeValue(name); v != "" {
			if at, err := ber.ParseGeneralizedTime([]byte(v)); err != nil || !at.After(now) {
				return rejections["701"]
			}
		}
	}
	if days, err := strconv.ParseInt(e.GetEqualFoldAttributeValue(attrShadow), 10, 32); err == nil && days > 0 && now.Unix() >= days*24*60*60 {
		return rejections["701"]
	}
	return nil
}

// rawOf is the value of an identifier for a filter: the one that is held, or the objectGUID of its text, which sessions
// of version 0.1 hold.
func rawOf(name string, held []byte) string {
	if !strings.EqualFold(name, attrGUID) {
		return string(held)
	}
	v, err := hex.DecodeString(strings.ReplaceAll(string(held), "-", ""))
	if err != nil || len(v) != 16 {
		return string(held)
	}
	slices.Reverse(v[:4])
	slices.Reverse(v[4:6])
	slices.Reverse(v[6:8])
	return string(v)
}
