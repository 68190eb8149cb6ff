package loginmethod

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// Errors about a provider name options of the Caddyfile. This file translates them for callers of the configuration
// API, who know the members of the login method.

// members has the paths of members of a login method, below it, by the options of the Caddyfile that set the same.
type members map[string]string

// below puts the attribute object of a type before its members.
func below(object string, of members) members {
	out := members{"level": "authentication_level"}
	for option, member := range of {
		out[option] = object + "." + member
	}
	return out
}

func socialMembers(object string) members {
	return below(object, members{"client_id": "clientId", "client_secret": "client_secret"})
}

const mutualKey = "saml_mutual_ssl_tls_attributes.client_key_pair_id"

var membersOf = map[string]members{
	settings.TypeSAML: below("saml_attributes",
		members{"metadata": "idp_metadata", "authn_context": "comparison", "map_level": "authentication_level_mappings"}),
	settings.TypeDigiD: below("digid_attributes", members{"metadata": "idp_metadata", "assurance": "required_authentication_level"}),
	settings.TypeEIDAS: below("eidas_attributes", members{
		"metadata": "idp_metadata", "assurance": "required_level_of_assurance", "via": "authentication_service_custom_value",
		"entity_id": "entity_id",
	}),
	settings.TypeOIDC: below("open_id_connect_attributes", members{ //nolint:gosec // names of members
		"issuer": "issuer", "authorization_url": "authorization_url", "token_url": "id_token_url", "jwks_url": "jwks_url",
		"user_info_url":   "user_info_url",
		"end_session_url": "end_session_url", "discovery_url": "discovery_url", "client_id": "client_id", "client_secret": "client_secret",
		"auth_method": "client_authentication_method", "scopes": "scopes", "claims": "claims",
		"metadata expiration": "metadata_expiration_time_in_seconds",
	}),
	settings.TypeApple: below("apple_attributes", members{
		"client_id": "client_id", "team_id": "team_id", "key_id": "key_id", "key": "signing_key_id", "jwks_uri": "jwks_uri", "scopes": "scopes",
	}),
	settings.TypeItsme: below("itsme_attributes", members{
		"client_id": "client_id", "service_code": "login_service_code", "security_level": "security_level", "discovery_url": "discovery_url",
		"issuer": "discovery_url",
		"scopes": "scopes", "claims": "claims", "metadata expiration": "metadata_expiration_time_in_seconds",
	}),
	settings.TypeAzureADB2C: below("azure_ad_b2c_attributes", members{
		"tenant": "tenant_id", "policy": "policy", "client_id": "application_id", "client_secret": "client_secret",
	}),
	settings.TypeLDAP: below("ladp_attributes", members{
		"url": "server_urls", "bind": "user_distinguished_name", "base": "base_suffix", "template": "authentication_dn_template",
		"match":             "match_pattern",
		"bind and template": "authentication_dn_template",
	}),
	settings.TypeKerberos:  below("kerberos_attributes", members{"keytab": "keytab_id", "the keytab": "keytab_id"}),
	settings.TypeFacebook:  socialMembers("facebook_attributes"),
	settings.TypeGoogle:    socialMembers("google_attributes"),
	settings.TypeLinkedIn:  socialMembers("linkedin_attributes"),
	settings.TypeMicrosoft: socialMembers("microsoft_attributes"),
	settings.TypeTwitter:   socialMembers("twitter_attributes"),
	settings.TypeGitHub:    socialMembers("github_attributes"),
	settings.TypeDiscord:   socialMembers("discord_attributes"),
}

// rewordings are problems whose text names options, with a text that names members.
var rewordings = []struct{ begins, member, problem string }{
	{"bind: name an account", "", "is missing: name an account that searches for people, or authentication_dn_template"},
	{"bind: the account needs a password", "ladp_attributes.password", "is missing: without one a server accepts anyone, as anonymous"},
	{"bind and template:", "", "must be empty with user_distinguished_name: people are searched for, or named by a template: keep one of them"},
	{"base: name the DN", "", "is missing: name the DN below which people are, such as ou=people,dc=example,dc=com"},
	{"url: want 1 to", "", "names no server or too many: want addresses such as ldaps://ldap.example.com, with commas between them"},
	{"want the metadata itself", "metadata", "must be the metadata itself or their https address"},
	{"metadata is missing", "", "must be the metadata itself or their https address"},
	{"the scheme digid needs client_key", mutualKey, "is missing: the back channel requires a client certificate"},
	{"the scheme etoegang needs client_key", mutualKey, "is missing: the back channel requires a client certificate"},
	{"key is missing", "", "is missing: name the key pair with the key of Apple"},
}

// memberWords replaces words of the Caddyfile within problems by those of the members.
var memberWords = strings.NewReplacer(
	"client_secret_basic", "CLIENT_SECRET_BASIC", "client_secret_post", "CLIENT_SECRET_POST", "private_key_jwt", "PRIVATE_KEY_JWT",
	"name the one that is meant by entity, or give its metadata alone", "give the metadata of one alone",
	"only https addresses and files can be read", "only https addresses can be read",
)

// problemsOf returns the problems of a login method, by its members. nil: none.
func problemsOf(m *settings.LoginMethod, err error) error {
	problems := mappingProblems(m)
	for _, one := range leaves(err) {
		if text := one.Error(); !strings.HasPrefix(text, "map ") { // mappingProblems has reported it
			problems = append(problems, problemOf(m, one))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return settings.MethodError(problems)
}

// leaves returns the errors that were joined.
func leaves(err error) (out []error) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of this error alone
		for _, one := range joined.Unwrap() {
			out = append(out, leaves(one)...)
		}
		return out
	}
	return []error{err}
}

var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// problemOf translates a problem whose text begins with the option that it is about.
func problemOf(m *settings.LoginMethod, err error) jsonapi.Problem {
	text := err.Error()
	of := membersOf[m.Type]
	text = strings.TrimPrefix(strings.TrimPrefix(text, "metadata: "), "the scheme ")
	full := text
	option := ""
	for word := range of {
		if rest, ok := strings.CutPrefix(text, word); ok && len(word) > len(option) && (rest == "" || strings.ContainsAny(rest[:1], " :,")) {
			option = word
		}
	}
	for _, o := range rewordings {
		if strings.HasPrefix(full, strings.TrimPrefix(o.begins, "the scheme ")) {
			member := o.member
			if of[member] != "" {
				member = of[member]
			}
			if member == "" {
				member = of[option]
			}
			return problemAs(member, o.problem, err)
		}
	}
	member, problem := of[option], strings.TrimLeft(strings.TrimPrefix(text, option), ": ")
	switch {
	case option == "client_secret" && m.Type != settings.TypeOIDC:
		problem = "is missing: the provider knows Gatehouse by it"
	case option == "the keytab":
		problem = text
	case option == "assurance":
		_, names, _ := strings.Cut(text, " is not one of ")
		problem = "must be one of " + strings.ToUpper(names)
	case option == "authn_context" || option == "map_level":
		member = classMember(m, text)
	case strings.Contains(text, " is not the name of an attribute"):
		member = attributeMember(m, text)
	}
	for _, word := range []string{"auth_method", "client_id"} {
		if name := of[word]; name != "" {
			problem = strings.ReplaceAll(problem, word, name[strings.LastIndexByte(name, '.')+1:])
		}
	}
	return problemAs(member, memberWords.Replace(problem), err)
}

// problemAs returns a problem with the code of an error and another text.
func problemAs(member, text string, err error) jsonapi.Problem {
	p := jsonapi.ProblemAt(member, err)
	p.Problem = text
	return p
}

// classMember returns the member with the class that a problem quotes.
func classMember(m *settings.LoginMethod, text string) string {
	const at = "saml_attributes.authentication_level_mappings"
	if m.SAML == nil {
		return at
	}
	for i, l := range slices.Backward(m.SAML.AuthenticationLevelMappings) { // of two equal ones, the second is wrong
		if quotedText.FindString(text) == fmt.Sprintf("%q", l.AuthnContextClassRefName) {
			return fmt.Sprintf("%s[%d].authn_context_class_ref_name", at, i)
		}
		if strings.HasPrefix(text, "map_level "+l.AuthnContextClassRefName+":") {
			return fmt.Sprintf("%s[%d].authentication_level", at, i)
		}
	}
	return at
}

// attributeMember returns the member with the attribute of a directory that a problem quotes.
func attributeMember(m *settings.LoginMethod, text string) string {
	quoted := quotedText.FindString(text)
	if m.LDAP != nil {
		for i, name := range m.LDAP.AttributesToBeFetched {
			if fmt.Sprintf("%q", name) == quoted {
				return fmt.Sprintf("ladp_attributes.attributes_to_be_fetched[%d]", i)
			}
		}
	}
	for i, a := range m.AttributeMappings {
		if fmt.Sprintf("%q", a.MapFrom) == quoted {
			return fmt.Sprintf("attribute_mappings[%d].map_from", i)
		}
	}
	for i, a := range m.CustomAttributeMappings {
		if fmt.Sprintf("%q", a.AttributeToMapFrom) == quoted {
			return fmt.Sprintf("custom_attribute_mappings[%d].attribute_to_map_from", i)
		}
	}
	return ""
}

// foreignTo returns what tells the names of attributes of providers of a method's type from details.
func foreignTo(m *settings.LoginMethod) attribute.Foreign {
	switch m.Type {
	case settings.TypeLDAP:
		return attribute.InDirectory
	case settings.TypeSAML, settings.TypeDigiD, settings.TypeEIDAS, settings.TypeKerberos:
		return attribute.Nowhere
	}
	return attribute.InOpenID
}

// mappingProblems returns the problems of the mappings.
func mappingProblems(m *settings.LoginMethod) (out []jsonapi.Problem) {
	names := coded.New("attribute_name", "must be a name of 1 to 256 printable characters")
	foreign := foreignTo(m)
	var seen []idp.Attribute
	add := func(at, from, to string, a idp.Attribute) {
		const valid = "x"
		switch {
		case idp.Mapping{Attributes: []idp.Attribute{{From: a.From, To: valid}}}.Validate() != nil:
			out = append(out, jsonapi.ProblemAt(at+"."+from, names))
		case idp.Mapping{Attributes: []idp.Attribute{{From: valid, To: a.To}}}.Validate() != nil:
			out = append(out, jsonapi.ProblemAt(at+"."+to, names))
		case slices.Contains(seen, a):
			out = append(out, jsonapi.ProblemAt(at, coded.New("twice", "is there twice")))
		case attribute.Swapped(a.From, a.To, foreign):
			out = append(out, jsonapi.ProblemAt(at, coded.Errorf("mapping_swapped", "",
				"is the wrong way round: %s must be the attribute of the provider, and %s the detail", from, to)))
		}
		seen = append(seen, a)
	}
	for i, a := range m.AttributeMappings {
		at := fmt.Sprintf("attribute_mappings[%d]", i)
		add(at, "map_from", "map_to", idp.Attribute{From: a.MapFrom, To: a.MapTo})
		if meant := settings.MeantClaim(a.MapTo); meant != "" &&
			!slices.ContainsFunc(m.CustomAttributeFields, func(f settings.CustomAttributeField) bool { return f.Name == a.MapTo }) {
			out = append(out, jsonapi.ProblemAt(at+".map_to",
				coded.Errorf("attribute_meant", "meant", "is not an attribute of a person: did you mean %s?", meant)))
		}
	}
	seen = nil // an attribute can be custom as well
	for i, a := range m.CustomAttributeMappings {
		add(fmt.Sprintf("custom_attribute_mappings[%d]", i), "attribute_to_map_from", "attribute_to_map_to",
			idp.Attribute{From: a.AttributeToMapFrom, To: a.AttributeToMapTo})
	}
	return out
}

// metadataProblem is problemsOf for metadata that cannot be used.
func metadataProblem(m *settings.LoginMethod, err error) error {
	if err == nil {
		return nil
	}
	return settings.MethodError{jsonapi.ProblemAt(membersOf[m.Type]["metadata"],
		coded.Errorf("metadata_unusable", "reason", "cannot be used: %s", memberWords.Replace(err.Error())))}
}
