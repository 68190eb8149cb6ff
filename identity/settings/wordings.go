package settings

import (
	"fmt"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// wording is the message of pages for a kind of problem.
type wording struct {
	key    string   // below console.settings_problem.
	params []string // the names of the parameters, in the order of the format
}

// wordings are the messages of pages by the format of the problem, which is the English text of the API.
var wordings = map[string]wording{
	"has more than %s entries":                            {"entries", []string{"max"}},
	"must be from %s to %s":                               {"range", []string{"from", "to"}},
	"must be one of %s":                                   {"one_of", []string{"list"}},
	"has a member without a name":                         {"nameless", nil},
	"is empty":                                            {"empty", nil},
	"has more than %d characters":                         {"length", []string{"max"}},
	"has a character that turns the direction of writing": {"direction", nil},
	"has a control character":                             {"control", nil},
	"must be letters, digits, dots, - and _":              {"id", nil},
	"must be printable, without spaces":                   {"key", nil},
	`must not have a / or \, and not be ., .. or batch: it could not be deleted`: {"message", nil},
	"must be a locale such as nl, nl_NL or nl_NL_informal":                       {"locale", nil},
	"must begin with a language such as nl":                                      {"language", nil},
	"must be an e-mail address":                                                  {"email", nil},
	"is not a regular expression that can be taken":                              {"regex", nil},
	"must be an address range such as 10.0.0.0/8":                                {"cidr", nil},
	"must be a scope: printable ASCII without spaces, quotes and backslashes":    {"scope", nil},
	"must be SAML metadata, or the https URL of it":                              {"metadata", nil},
	"must be a picture in Base64":                                                {"base64", nil},
	"must be an https URL as a browser writes it: " +
		"a lower case ASCII host, no user, no default port, no dot segments, no backslash": {"url", nil},
	"has a port above 65535":                                                       {"port", nil},
	"must be https; http is for loopback hosts only":                               {"https", nil},
	"must be an https URL, or one with the scheme of an app such as myapp://login": {"app", nil},
	"must have neither query nor fragment":                                         {"bare", nil},
	"must be an https URL, or a path such as /welcome":                             {"target", nil},
	"must be an origin such as https://www.example.com, without a path":            {"origin", nil},
	"is too long":                                                {"address_length", nil},
	"must be a path such as /login":                              {"path", nil},
	"must not be more than max_length":                           {"min_max", nil},
	"leaves no room for the characters that are required":        {"no_room", nil},
	"is empty: no one could meet the rule":                       {"no_attribute", nil},
	"names an attribute twice":                                   {"attribute_twice", nil},
	"is %s in another spelling: keep one of them":                {"spelling", []string{"other"}},
	"is the key of no text: did you mean %s?":                    {"message_key", []string{"meant"}},
	"is there twice":                                             {"twice", nil},
	"must be the name of the member":                             {"key_name", nil},
	"must be true, false or empty":                               {"true_false", nil},
	"is missing: enable_login_redirect needs it":                 {"ui_missing", nil},
	"must have no query and no fragment":                         {"no_query", nil},
	"must have no fragment":                                      {"no_fragment", nil},
	"must name both attributes":                                  {"both", nil},
	"is required":                                                {"required", nil},
	"is required for an enabled method of type %s":               {"required_type", []string{"type"}},
	"is required with ip_range_enabled":                          {"ranges", nil},
	"must be 0: such a method says nothing about who someone is": {"assurance", nil},
	"must be 1: that is what a password is worth":                {"password_level", nil},
}

// problemAt is a problem with its English text for the API and, where there is one, its message for pages.
func problemAt(path, format string, args []any) jsonapi.Problem {
	p := jsonapi.Problem{Path: path, Problem: format}
	if len(args) > 0 {
		p.Problem = fmt.Sprintf(format, args...)
	}
	if w, ok := wordings[format]; ok && len(w.params) == len(args) {
		p.Key = "console.settings_problem." + w.key
		for i, name := range w.params {
			p.Fill = append(p.Fill, name, fmt.Sprint(args[i]))
		}
	}
	return p
}
