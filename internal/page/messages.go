package page

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	xlanguage "golang.org/x/text/language"
)

//go:embed messages/*.json
var messageFiles embed.FS

// catalogue holds the messages of every language that is switched on; the first one is the default.
type catalogue struct {
	languages []*language
	matcher   xlanguage.Matcher
}

// language is the messages of one language by their keys.
type language struct {
	tag   string
	texts map[string]string
}

// newCatalogue loads the languages. An unknown one is an error that names those there are.
func newCatalogue(locales []string) (*catalogue, error) {
	if len(locales) == 0 {
		locales = []string{"en"}
	}
	c := &catalogue{}
	var tags []xlanguage.Tag
	for _, l := range locales {
		tag, err := xlanguage.Parse(l)
		if err != nil {
			return nil, fmt.Errorf("page: locale %q is not a language tag", l)
		}
		base, _ := tag.Base()
		raw, err := messageFiles.ReadFile("messages/" + base.String() + ".json")
		if err != nil {
			return nil, fmt.Errorf("page: no messages for locale %q; there is: en", l)
		}
		lang := &language{tag: tag.String()}
		if err := json.Unmarshal(raw, &lang.texts); err != nil {
			return nil, fmt.Errorf("page: messages of %q: %w", l, err)
		}
		c.languages, tags = append(c.languages, lang), append(tags, tag)
	}
	c.matcher = xlanguage.NewMatcher(tags)
	return c, nil
}

// match chooses the language: what the flow asks for, then what the browser asks for, then the default. Nothing of either is repeated
// in an answer, only the tag of one of our own languages.
func (c *catalogue) match(r *http.Request, wanted []string) *language {
	if len(c.languages) == 1 {
		return c.languages[0]
	}
	var tags []xlanguage.Tag
	for _, l := range wanted[:min(len(wanted), 10)] {
		if tag, err := xlanguage.Parse(strings.ReplaceAll(l, "_", "-")); err == nil && len(l) < 64 {
			tags = append(tags, tag)
		}
	}
	if header := r.Header.Get("Accept-Language"); len(header) <= 512 {
		accepted, _, err := xlanguage.ParseAcceptLanguage(header)
		if err == nil {
			tags = append(tags, accepted...)
		}
	}
	_, i, _ := c.matcher.Match(tags...)
	return c.languages[i]
}

// Lang returns the language tag for the html element.
func (l *language) Lang() string { return l.tag }

// T returns the message of a key. Pairs of name and value fill in "{name}". A missing message is its key, which a test finds.
func (l *language) T(key string, pairs ...any) string {
	text, ok := l.texts[key]
	if !ok {
		return key
	}
	if len(pairs) < 2 {
		return text
	}
	fill := make([]string, 0, len(pairs))
	for i := 0; i+1 < len(pairs); i += 2 {
		fill = append(fill, "{"+fmt.Sprint(pairs[i])+"}", fmt.Sprint(pairs[i+1]))
	}
	return strings.NewReplacer(fill...).Replace(text) // one pass: a value that looks like a placeholder stays as it is
}

// Duration returns "40 seconds" or "3 minutes", rounded up.
func (l *language) Duration(seconds int) string {
	n, unit := max(seconds, 1), "seconds"
	if n > 90 {
		n, unit = (n+59)/60, "minutes"
	}
	if n == 1 {
		return l.T("duration." + strings.TrimSuffix(unit, "s"))
	}
	return l.T("duration."+unit, "n", strconv.Itoa(n))
}

// Scope returns the description of a scope: the operator's, ours for the standard ones, otherwise its name.
func (l *language) Scope(s ScopeLine) string {
	if s.Description != "" {
		return s.Description
	}
	if text, ok := l.texts["scope."+s.Name]; ok {
		return text
	}
	return s.Name
}
