package settings

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

func checkPasswordPolicy(u *Units, c *checker) {
	p := u.PasswordPolicy
	if p.MinLength > p.MaxLength {
		c.add("password_policy.min_length", coded.New("min_max", "must not be more than max_length"))
	}
	classes := 0
	for _, demanded := range []bool{p.LowerCaseCharRequired, p.UpperCaseCharRequired, p.SpecialCharRequired} {
		if demanded {
			classes++
		}
	}
	if p.MaxLength < classes {
		c.add("password_policy.max_length", coded.New("no_room", "leaves no room for the characters that are required"))
	}
}

// Check returns the rules that a password breaks, as message keys. Lengths count characters. Other rules are checked
// elsewhere: that the password is text, and that it is not known from a breach.
func (p PasswordPolicy) Check(password string) []string {
	var broken []string
	n := utf8.RuneCountInString(password)
	if n < p.MinLength {
		broken = append(broken, "password.too_short")
	}
	if n > p.MaxLength {
		broken = append(broken, "password.too_long")
	}
	if p.LowerCaseCharRequired && !strings.ContainsFunc(password, unicode.IsLower) {
		broken = append(broken, "password.no_lower_case")
	}
	if p.UpperCaseCharRequired && !strings.ContainsFunc(password, unicode.IsUpper) {
		broken = append(broken, "password.no_upper_case")
	}
	// A special character is neither a letter nor a digit of any script.
	special := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }
	if p.SpecialCharRequired && !strings.ContainsFunc(password, special) {
		broken = append(broken, "password.no_special")
	}
	return broken
}

func checkProfile(u *Units, c *checker) {
	for i, r := range u.Profile.Rules {
		at := "profile.required_attributes_validation_rules[" + strconv.Itoa(i) + "].any_of"
		if len(r.AnyOf) == 0 {
			c.add(at, coded.New("no_attribute", "is empty: no one could meet the rule"))
		}
		if hasTwice(r.AnyOf) {
			c.add(at, coded.New("attribute_twice", "names an attribute twice"))
		}
	}
}

func checkCustomMessages(u *Units, c *checker) {
	checkLocales(u.CustomMessages.Locales, "custom_messages.locales", c)
	left := maxLookups
	checkKeys(u.CustomMessages.Default, "custom_messages.default", &left, c)
	for _, locale := range slices.Sorted(maps.Keys(u.CustomMessages.Locales)) {
		checkKeys(u.CustomMessages.Locales[locale], "custom_messages.locales."+shown(locale), &left, c)
	}
}

func checkMessages(u *Units, c *checker) {
	checkLocales(u.Messages, "messages", c)
	left := maxLookups
	for _, locale := range slices.Sorted(maps.Keys(u.Messages)) {
		checkKeys(u.Messages[locale], "messages."+shown(locale), &left, c)
	}
}

// maxLookups bounds the unknown keys of a unit for which the key that was meant is looked up, since that takes time.
const maxLookups = 100

// checkKeys refuses misspelled keys, whose texts no page would show.
func checkKeys(texts Translations, path string, left *int, c *checker) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if web.IsKey(key) {
			continue
		}
		if *left--; *left < 0 {
			return
		}
		if meant := web.MeantKey(key); meant != "" {
			c.addText(path+"."+shown(key), key, coded.Errorf("message_key", "meant", "is the key of no text: did you mean %s?", meant))
		}
	}
}

// checkLocales refuses two spellings of one locale, since it would be unclear which one counts.
func checkLocales(of map[string]Translations, path string, c *checker) {
	seen := map[string]string{}
	for _, locale := range slices.Sorted(maps.Keys(of)) {
		one := strings.ToLower(strings.ReplaceAll(locale, "-", "_"))
		if before, twice := seen[one]; twice {
			c.add(path+"."+shown(locale), coded.Errorf("spelling", "other", "is %s in another spelling: keep one of them", shown(before)))
		}
		seen[one] = locale
	}
}

func checkFeatures(u *Units, c *checker) {
	checkWhitelist(u.Features.ActionToken.WhitelistedURLs, "features.action_token.whitelisted_urls", c)
}

func checkRedirects(u *Units, c *checker) {
	checkWhitelist(u.Redirects.URLWhitelist, "redirects.url_whitelist", c)
}

// checkWhitelist refuses duplicates: removing one of them would not remove the URL.
func checkWhitelist(list []WhitelistedURL, path string, c *checker) {
	ids, urls := map[string]bool{}, map[string]bool{}
	for i, w := range list {
		at := path + "[" + strconv.Itoa(i) + "]"
		if ids[w.ID] {
			c.add(at+".id", coded.New("twice", "is there twice"))
		}
		if urls[w.URL] {
			c.add(at+".url", coded.New("twice", "is there twice"))
		}
		ids[w.ID], urls[w.URL] = true, true
	}
}

func checkOrganisations(u *Units, c *checker) {
	ids := map[string]bool{}
	for i := range u.Organisations {
		o := &u.Organisations[i]
		at := "organisations[" + strconv.Itoa(i) + "]"
		if ids[o.ID] {
			c.add(at+".id", coded.New("twice", "is there twice"))
		}
		ids[o.ID] = true
		for key, sp := range o.ServiceProviders {
			if sp.ID != key {
				c.add(at+".service_providers."+shown(key)+".id", coded.New("key_name", "must be the name of the member"))
			}
			if _, err := sp.protocol(); err != nil {
				c.addText(at+".service_providers."+shown(key)+".type", sp.Type, err)
			}
			own := at + ".service_providers." + shown(key)
			for member, text := range map[string]string{
				"use_trusted_device": sp.UseTrustedDevice,
				"include_unmapped_custom_attributes_within_saml_response": sp.IncludeUnmappedCustomAttributes,
			} {
				if text != "" && !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
					c.addText(own+"."+member, text, coded.New("true_false", "must be true, false or empty"))
				}
			}
			checkAttributes(u, own, sp.CustomAttributeMappings, sp.IdentityAttributes, c)
		}
		learns := &o.UserProfileAttributes
		learns.SAMLSubjectName.check(u, at+".user_profile_attributes.saml_subject_name_attributes", c)
		checkAttributes(u, at+".user_profile_attributes", learns.CustomAttributeMappings, learns.IdentityAttributes, c)
	}
}

func checkUIExtension(u *Units, c *checker) {
	if x := &u.UIExtension; x.EnableLoginRedirect && x.BaseURL == "" {
		c.add("ui_extension.base_url", coded.New("ui_missing", "is missing: enable_login_redirect needs it"))
	}
	if strings.ContainsAny(u.UIExtension.BaseURL, "?#") {
		c.add("ui_extension.base_url", coded.New("no_query", "must have no query and no fragment"))
	}
	if strings.Contains(u.UIExtension.LoginPath, "#") {
		c.add("ui_extension.login_path", coded.New("no_fragment", "must have no fragment"))
	}
}

func hasTwice(list []string) bool {
	sorted := slices.Sorted(slices.Values(list))
	return len(slices.Compact(sorted)) != len(list)
}

// compile compiles the expressions. An invalid one is never stored.
func (v *CustomEmailValidation) compile() {
	v.before, _ = kind.CompileWhole(v.BeforeAtRegex)
	v.after, _ = kind.CompileWhole(v.AfterAtRegex)
	if v.after != nil {
		v.after = regexp.MustCompile(`(?i)` + v.after.String()) // domains have no case (RFC 5321 2.4)
	}
}

// Check reports whether an e-mail address meets the demands: the expressions match the whole parts before and after the
// last @, and there is no other unquoted @.
func (v *CustomEmailValidation) Check(address string) bool {
	if !v.Enabled {
		return true
	}
	at := strings.LastIndexByte(address, '@')
	if at < 1 || len(address) > 254 {
		return false
	}
	before, after := address[:at], address[at+1:]
	quoted := len(before) > 1 && before[0] == '"' && before[len(before)-1] == '"'
	if strings.Contains(before, "@") && !quoted {
		return false
	}
	return (v.before == nil || v.before.MatchString(before)) && (v.after == nil || v.after.MatchString(after))
}
