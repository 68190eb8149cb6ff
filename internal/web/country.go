package web

import (
	"slices"
	"strings"
	"unicode"

	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/unicode/norm"
)

// countryCodes are the codes of ISO 3166-1 that are in use.
var countryCodes = func() (out []xlanguage.Region) {
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			code := string(a) + string(b)
			r, err := xlanguage.ParseRegion(code)
			if err == nil && r.String() == code && r.IsCountry() && r.Canonicalize() == r && r.ISO3() != "ZZZ" {
				out = append(out, r)
			}
		}
	}
	return out
}()

// countries returns the countries by their names in the language, in the order of these names. chosen is among them
// even if it is a code that is no longer in use.
func (l *language) countries(chosen string) []option {
	names := display.Regions(xlanguage.Make(l.tag))
	if names == nil {
		names = display.Regions(xlanguage.English)
	}
	var out []option
	found := chosen == ""
	for _, r := range countryCodes {
		code := r.String()
		found = found || code == chosen
		out = append(out, option{code, names.Name(r), code == chosen})
	}
	if !found {
		out = append(out, option{chosen, chosen, true})
	}
	slices.SortFunc(out, func(a, b option) int { return strings.Compare(sortKey(a.Label), sortKey(b.Label)) })
	return append([]option{{"", l.T("profile.country.none"), chosen == ""}}, out...)
}

// sortKey returns a name without accents and case, so Åland stands among the names with A.
func sortKey(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Mn, c) {
			return -1
		}
		return unicode.ToLower(c)
	}, norm.NFD.String(name))
}
