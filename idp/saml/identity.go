package saml

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
)

// held is the data that a sign-out at the provider needs.
type held struct {
	Idp     string `json:"idp"`
	NameID  nameID `json:"name_id"`
	Session string `json:"session,omitempty"` // SessionIndex
}

// Details with a special meaning. Administrators map attributes to them.
const (
	detailEmail    = "email"
	detailVerified = "email_verified"
	detailUsername = "username"
)

// identity converts a verified answer for the identity service.
func (p *Provider) identity(v *verified) (*idp.Identity, error) {
	raw := byName(v.Attributes)
	var named string
	if p.scheme != nil && p.cfg.Subject == "" {
		var err error
		if named, err = p.scheme.subject(v, raw); err != nil {
			return nil, err
		}
	}
	details := p.mapping.Apply(raw)
	keep, err := json.Marshal(held{Idp: v.Issuer, NameID: v.NameID, Session: v.SessionIndex})
	if err != nil {
		return nil, err
	}
	id := &idp.Identity{
		Issuer: v.Issuer, Username: first(details[detailUsername]), Email: first(details[detailEmail]),
		Level: p.cfg.level(v.ClassRef), AuthTime: v.AuthnInstant, NotAfter: v.SessionNotOnOrAfter, Details: details,
		Sessions: sessionNames(v.NameID.Value, v.SessionIndex), Held: keep, Form: "format " + v.NameID.Format,
	}
	if p.cfg.Subject != "" {
		id.Form = "attribute " + p.cfg.Subject
	}
	if p.cfg.IdentifyBy != "" && !isOfAnother(v, p.cfg.IdentifyBy) {
		id.Stable = idp.Single(raw[p.cfg.IdentifyBy])
	}
	if id.Email == "" && v.NameID.Format == formatEmail && idp.IsText(v.NameID.Value, idp.MaxValue) {
		id.Email = v.NameID.Value
	}
	if id.Email != "" {
		// SAML cannot express whether an address is verified. The administrator has chosen the provider and the
		// attribute, so the address counts as verified unless an attribute says otherwise.
		said, ok := details[detailVerified]
		id.EmailVerified = !ok || len(said) == 1 && (strings.EqualFold(said[0], "true") || said[0] == "1")
	}
	if named != "" {
		id.Form = "scheme " + p.cfg.Scheme
		id.Subject, err = permanent(named)
		return id, err
	}
	id.Subject, err = p.subject(v, raw, id)
	return id, err
}

// subject returns the permanent identifier of the person at the provider.
func (p *Provider) subject(v *verified, raw map[string][]string, id *idp.Identity) (string, error) {
	subject := v.NameID.Value
	switch values := raw[p.cfg.Subject]; {
	case p.cfg.Subject != "" && len(values) != 1:
		return "", &idp.Rejection{Reason: "the attribute that identifies the person does not have exactly one value"}
	case p.cfg.Subject != "":
		subject = values[0]
	case v.NameID.Format == formatTransient && !id.EmailVerified:
		// SAML core 8.3.8: the name changes with each sign-in. The person would never be recognized, and each sign-in
		// would create a new account.
		return "", &idp.Rejection{Reason: "the provider gives the person another name at each sign-in: set subject, or map an e-mail address"}
	case v.NameID.Format == formatTransient:
		subject = "email:" + strings.ToLower(id.Email)
	}
	return permanent(subject)
}

// permanent refuses a name that no one can be known by.
func permanent(subject string) (string, error) {
	if subject == "" || !idp.IsText(subject, idp.MaxSubject) {
		return "", &idp.Rejection{Reason: "the name of the person is empty, too long or has control characters"}
	}
	return subject, nil
}

// sessionNames returns the names under which the provider can end the session: that of the person, and that of the
// session if there is an index. The person is named as in the assertion, not by our subject.
func sessionNames(name string, indexes ...string) []string {
	out := []string{hashed("n", name)}
	for _, index := range indexes {
		if index != "" {
			out = append(out, hashed("i", name, index))
		}
	}
	return out
}

func hashed(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00"))) // NUL cannot occur in XML
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// byName collects the values of the attributes under all names that an administrator can use: the Name, and the
// FriendlyName or the usual short name of an object identifier. A short name never hides an attribute with the same
// Name.
func byName(attributes []attribute) map[string][]string {
	out := map[string][]string{}
	for _, a := range attributes {
		out[a.Name] = append(out[a.Name], a.Values...)
	}
	short := map[string][]string{}
	for _, a := range attributes {
		name, known := oids[strings.TrimPrefix(a.Name, "urn:oid:")]
		if !known {
			name = a.FriendlyName
		}
		if _, taken := out[name]; name != "" && !taken {
			short[name] = append(short[name], a.Values...)
		}
	}
	for name, values := range short {
		out[name] = values
	}
	return out
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// oids maps the object identifiers of attributes to their usual short names. (RFC 4519, RFC 2798, eduPerson, SCHAC)
var oids = map[string]string{
	"0.9.2342.19200300.100.1.1":  "uid",
	"0.9.2342.19200300.100.1.3":  "mail",
	"0.9.2342.19200300.100.1.41": "mobile",
	"1.2.840.113549.1.9.1":       "emailAddress",
	"1.2.840.113556.1.2.102":     "memberOf",
	"1.3.6.1.4.1.25178.1.2.3":    "schacDateOfBirth",
	"1.3.6.1.4.1.25178.1.2.9":    "schacHomeOrganization",
	"1.3.6.1.4.1.5923.1.1.1.1":   "eduPersonAffiliation",
	"1.3.6.1.4.1.5923.1.1.1.10":  "eduPersonTargetedID",
	"1.3.6.1.4.1.5923.1.1.1.11":  "eduPersonAssurance",
	"1.3.6.1.4.1.5923.1.1.1.13":  "eduPersonUniqueId",
	"1.3.6.1.4.1.5923.1.1.1.16":  "eduPersonOrcid",
	"1.3.6.1.4.1.5923.1.1.1.2":   "eduPersonNickname",
	"1.3.6.1.4.1.5923.1.1.1.5":   "eduPersonPrimaryAffiliation",
	"1.3.6.1.4.1.5923.1.1.1.6":   "eduPersonPrincipalName",
	"1.3.6.1.4.1.5923.1.1.1.7":   "eduPersonEntitlement",
	"1.3.6.1.4.1.5923.1.1.1.9":   "eduPersonScopedAffiliation",
	"1.3.6.1.4.1.5923.1.5.1.1":   "isMemberOf",
	"2.16.840.1.113730.3.1.241":  "displayName",
	"2.16.840.1.113730.3.1.3":    "employeeNumber",
	"2.16.840.1.113730.3.1.39":   "preferredLanguage",
	"2.16.840.1.113730.3.1.4":    "employeeType",
	"2.5.4.10":                   "o",
	"2.5.4.11":                   "ou",
	"2.5.4.12":                   "title",
	"2.5.4.20":                   "telephoneNumber",
	"2.5.4.3":                    "cn",
	"2.5.4.4":                    "sn",
	"2.5.4.42":                   "givenName",
	"2.5.4.43":                   "initials",
	"2.5.4.5":                    "serialNumber",
	"2.5.4.6":                    "c",
	"2.5.4.7":                    "l",
}
