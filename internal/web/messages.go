package web

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/internal/spelling"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

//go:embed messages/*/*.json
var messageFiles embed.FS

// builtIn returns our own messages by language code.
var builtIn = sync.OnceValue(func() map[string]map[string]string {
	all, err := readMessages(messageFiles)
	if err != nil {
		panic(err)
	}
	return all
})

// readMessages returns the messages of the files messages/<language>/<topic>.json by language code. A key that appears
// twice in a language is an error.
func readMessages(files fs.FS) (map[string]map[string]string, error) {
	names, err := fs.Glob(files, "messages/*/*.json")
	if err != nil {
		return nil, err
	}
	all, from := map[string]map[string]string{}, map[string]string{}
	for _, name := range names {
		code := path.Base(path.Dir(name))
		if all[code] == nil {
			all[code] = map[string]string{}
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		var texts map[string]string
		if err := cmp.Or(strictjson.Check(raw, 1), strictjson.Decode(raw, &texts)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for key, text := range texts {
			if other := from[code+" "+key]; other != "" {
				return nil, fmt.Errorf("%s: %s is in %s too", name, key, other)
			}
			all[code][key], from[code+" "+key] = text, name
		}
	}
	return all, nil
}

// addressed begins the keys of the messages that take the place of others where usernames are e-mail addresses.
const addressed = "addressed."

// builtInAddressed returns our own messages for a service where usernames are e-mail addresses.
var builtInAddressed = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for code, texts := range builtIn() {
		all[code] = maps.Clone(texts)
		for key, text := range texts {
			if of, ok := strings.CutPrefix(key, addressed); ok {
				all[code][of] = text
			}
		}
	}
	return all
})

// Languages returns the codes of the languages with built-in messages, sorted.
func Languages() []string { return slices.Sorted(maps.Keys(builtIn())) }

const (
	maxMessage = 4000 // characters
	// finalLanguage has every message.
	finalLanguage = "en"
)

var (
	// languageCode, languageCode_countryCode, languageCode_countryCode_variant (token server document, "Authorization
	// endpoint", language)
	localeForm = regexp.MustCompile(`^[A-Za-z]{2,3}([_-]([A-Za-z]{2}|[0-9]{3})([_-][A-Za-z0-9]{1,8})?)?$`)
	keyForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$`)
)

// open begin the keys of messages about what an operator has named: scopes, attributes, authorization details.
var open = []string{"scope.", "custom_attribute.", "attribute.", "details."}

// IsKey reports whether a message of this key can be shown.
func IsKey(key string) bool {
	_, known := builtIn()[finalLanguage][key]
	return known || slices.ContainsFunc(open, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// MeantKey returns the key of a message that a misspelled one was probably meant to be, or "".
func MeantKey(key string) string {
	var near []string // those of another length are not
	for k := range builtIn()[finalLanguage] {
		if d := len(k) - len(key); d >= -3 && d <= 3 {
			near = append(near, k)
		}
	}
	return spelling.Word(key, near)
}

// CheckLocale returns an error unless the name of a locale has the form nl, nl_NL or nl_NL_informal.
func CheckLocale(name string) error {
	if !localeForm.MatchString(name) {
		return errors.New("is not a locale such as nl, nl_NL or nl_NL_informal")
	}
	return nil
}

// checkMessage returns what is wrong with a message. Any text can be shown: it is escaped, and unknown placeholders
// stay as they are written.
func checkMessage(key, text string) error {
	switch {
	case !keyForm.MatchString(key):
		return errors.New("the key must have 1 to 128 letters, digits and . _ : -")
	case utf8.RuneCountInString(text) > maxMessage:
		return fmt.Errorf("the text must have at most %d characters", maxMessage)
	case !utf8.ValidString(text):
		return errors.New("the text must be UTF-8")
	}
	for _, c := range text {
		if (c < ' ' && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) {
			return errors.New("the text must not have control characters")
		}
	}
	return nil
}

// Overrides are messages that replace built-in ones. They must not be changed after they are handed over.
type Overrides struct {
	// Default is for every language, by keys.
	Default map[string]string
	// Locales are by names such as nl, nl_NL and nl_NL_informal, then by keys. A locale without built-in messages
	// becomes available.
	Locales map[string]map[string]string
}

// localeKey is the form in which names of locales are compared.
func localeKey(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// fallbacks returns the name and its fallbacks: nl_nl_informal, nl_nl, nl.
func fallbacks(name string) (out []string) {
	for key := localeKey(name); key != ""; key = key[:max(0, strings.LastIndexByte(key, '_'))] {
		out = append(out, key)
	}
	return out
}

// catalogue holds the messages of every language to choose from. The first one is the default.
type catalogue struct {
	languages []*language
	offered   []*language          // those to choose from: all but variants
	byName    map[string]*language // by localeKey
	matcher   xlanguage.Matcher
	matched   []*language // in the order of the matcher's tags
}

// language is the messages of one language, in order of precedence.
type language struct {
	name, tag string // its name here, nl_NL, and for browsers, nl-NL
	texts     []map[string]string
	near      int      // how many of texts are for this language alone and not built in
	own       int      // how many of texts are not built in
	from      []Source // of those that are not built in
	// addressed says that usernames are e-mail addresses.
	addressed bool
	seen      map[string]bool // notes the keys that are looked up. nil: it does not
}

// newCatalogue makes the languages that are switched on and those that the layers bring; the first layer takes
// precedence. A locale without messages is an error that lists those available.
func newCatalogue(locales []string, layers []*Overrides, addressed bool) (*catalogue, error) {
	if len(locales) == 0 {
		locales = []string{finalLanguage}
	}
	for _, l := range locales {
		if base, ok := baseLanguage(l); !ok || builtIn()[base] == nil {
			return nil, fmt.Errorf("page: no messages for locale %q; there are: %s", l, strings.Join(Languages(), ", "))
		}
	}
	var brought []string
	for _, layer := range layers {
		brought = slices.AppendSeq(brought, maps.Keys(layer.Locales))
	}
	slices.Sort(brought)
	layers = byKey(layers)
	c := &catalogue{byName: map[string]*language{}}
	fallback, _ := baseLanguage(locales[0])
	var tags []xlanguage.Tag
	for _, name := range slices.Concat(locales, brought) {
		key := localeKey(name)
		if c.byName[key] != nil {
			continue
		}
		lang := newLanguage(name, fallback, layers, addressed)
		c.languages, c.byName[key] = append(c.languages, lang), lang
		if strings.Count(key, "_") < 2 {
			c.offered = append(c.offered, lang)
		}
		// A variant is for requests that name it, not for every speaker of the language.
		if tag, err := xlanguage.Parse(strings.ReplaceAll(name, "_", "-")); err == nil && strings.Count(key, "_") < 2 {
			tags, c.matched = append(tags, tag), append(c.matched, lang)
		}
	}
	c.matcher = xlanguage.NewMatcher(tags)
	return c, nil
}

func baseLanguage(locale string) (string, bool) {
	tag, err := xlanguage.Parse(strings.ReplaceAll(locale, "_", "-"))
	if err != nil {
		return "", false
	}
	base, _ := tag.Base()
	return base.String(), true
}

// newLanguage collects the messages of a locale: the layers for its variant, its country and its language, then the
// layers for every language, then the built-in ones.
func newLanguage(name, fallback string, layers []*Overrides, addressed bool) *language {
	l := &language{name: localeKey(name), tag: htmlTag(name), addressed: addressed}
	add := func(texts map[string]string) {
		if len(texts) > 0 {
			l.texts = append(l.texts, texts)
		}
	}
	custom := func(texts map[string]string, from Source) {
		if add(texts); len(texts) > 0 {
			l.from = append(l.from, from)
		}
	}
	for _, key := range fallbacks(name) {
		for i, layer := range layers {
			custom(layer.Locales[key], Source{i, key})
		}
	}
	l.near = len(l.texts)
	for i, layer := range layers {
		custom(layer.Default, Source{Layer: i})
	}
	l.own = len(l.texts)
	ours := builtIn()
	if addressed {
		ours = builtInAddressed()
	}
	base, _ := baseLanguage(name)
	add(ours[base])
	add(ours[fallback])
	add(ours[finalLanguage])
	return l
}

// byKey returns the layers with their locales by localeKey. Of several spellings of a name, the first in order counts.
func byKey(layers []*Overrides) []*Overrides {
	out := make([]*Overrides, len(layers))
	for i, layer := range layers {
		out[i] = &Overrides{Default: layer.Default, Locales: make(map[string]map[string]string, len(layer.Locales))}
		for _, name := range slices.Sorted(maps.Keys(layer.Locales)) {
			if key := localeKey(name); out[i].Locales[key] == nil {
				out[i].Locales[key] = layer.Locales[name]
			}
		}
	}
	return out
}

// htmlTag is the BCP 47 tag of a locale: language and country, as browsers know them.
func htmlTag(name string) string {
	parts := strings.SplitN(localeKey(name), "_", 3)
	parts = parts[:min(len(parts), 2)]
	if tag, err := xlanguage.Parse(strings.Join(parts, "-")); err == nil {
		return tag.String()
	}
	return strings.Join(parts, "-")
}

// match chooses the language. In order: the choice stored in the browser, the wishes of the flow by name and then by
// similarity, the wishes of the browser, the preference of the application's organisation, and the default. Nothing of
// the input is repeated in an answer, only the tag of an available language.
func (c *catalogue) match(r *http.Request, chosen string, wanted []string, preferred string) *language {
	if len(c.languages) == 1 {
		return c.languages[0]
	}
	if lang := c.named(chosen); lang != nil {
		return lang
	}
	var tags []xlanguage.Tag
	for _, l := range wanted[:min(len(wanted), 10)] {
		if len(l) >= 64 {
			continue
		}
		for _, key := range fallbacks(l) {
			if lang := c.byName[key]; lang != nil {
				return lang
			}
		}
		if tag, err := xlanguage.Parse(strings.ReplaceAll(l, "_", "-")); err == nil {
			tags = append(tags, tag)
		}
	}
	if header := r.Header.Get("Accept-Language"); len(header) <= 512 {
		accepted, _, err := xlanguage.ParseAcceptLanguage(header)
		if err == nil {
			tags = append(tags, accepted...)
		}
	}
	if len(c.matched) == 0 {
		return c.languages[0]
	}
	_, i, likeness := c.matcher.Match(tags...)
	if likeness == xlanguage.No {
		for _, key := range fallbacks(preferred) {
			if lang := c.byName[key]; lang != nil {
				return lang
			}
		}
	}
	return c.matched[i]
}

// Lang returns the language tag for the html element.
func (l *language) Lang() string { return l.tag }

// find returns the message of a key.
func (l *language) find(key string) (string, bool) {
	if l.seen != nil {
		l.seen[key] = true
	}
	for _, texts := range l.texts {
		if text, ok := texts[key]; ok {
			return text, true
		}
	}
	return "", false
}

// findFor returns the message of a key for the number among its pairs, which is called n or count: for 0 the one of
// key.none, for 1 that of key.one. Without such a message, and for other numbers, it is the one of the key. French says
// 0 as it says 1.
func (l *language) findFor(key string, pairs []any) (string, bool) {
	var forms []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "n" && pairs[i] != "count" {
			continue
		}
		switch fmt.Sprint(pairs[i+1]) {
		case "0":
			if forms = []string{key + ".none"}; strings.HasPrefix(l.tag, "fr") {
				forms = append(forms, key+".one")
			}
		case "1":
			forms = []string{key + ".one"}
		}
	}
	if len(forms) == 0 {
		return l.find(key)
	}
	forms = append(forms, key)
	for _, texts := range l.texts { // words that replace those of the key replace its forms
		for _, form := range forms {
			if text, ok := texts[form]; ok {
				if l.seen != nil {
					l.seen[form] = true
				}
				return text, true
			}
		}
	}
	return "", false
}

// T returns the message of a key. Pairs of name and value fill in "{name}"; a time.Time becomes a Moment, a
// time.Duration a Duration, and a Text its words. A missing message is shown as its key, which a test detects.
func (l *language) T(key string, pairs ...any) string {
	text, ok := l.findFor(key, pairs)
	if !ok {
		return key
	}
	if len(pairs) < 2 || !strings.Contains(text, "{") {
		return text
	}
	fill := make([]string, 0, len(pairs))
	for i := 0; i+1 < len(pairs); i += 2 {
		value := fmt.Sprint(pairs[i+1])
		switch v := pairs[i+1].(type) {
		case time.Time:
			value = l.Moment(v)
		case time.Duration:
			value = l.Duration(int((v + time.Second - 1) / time.Second))
		case Text:
			value = l.T(v.Key, v.Fill...)
		}
		fill = append(fill, "{"+fmt.Sprint(pairs[i])+"}", isolated(value))
	}
	return strings.NewReplacer(fill...).Replace(text) // one pass: a value that looks like a placeholder stays as it is
}

// isolated returns a value that is written from right to left so that it does not turn the words after it. (Unicode
// Annex 9, FIRST STRONG ISOLATE)
func isolated(value string) string {
	if !strings.ContainsFunc(value, func(c rune) bool {
		return unicode.In(c, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko) || c == '\u200f' || c == '\u061c'
	}) {
		return value
	}
	return "\u2068" + value + "\u2069"
}

// Duration returns "40 seconds" or "3 minutes", rounded up, and "2 hours" or "7 days" for whole hours and days.
func (l *language) Duration(seconds int) string {
	n, unit := max(seconds, 1), "second"
	if n > 90 {
		n, unit = (n+59)/60, "minute"
	}
	if unit == "minute" && n%60 == 0 {
		n, unit = n/60, "hour"
	}
	if unit == "hour" && n%24 == 0 {
		n, unit = n/24, "day"
	}
	if n == 1 {
		return l.T("duration." + unit)
	}
	return l.T("duration."+unit+"s", "n", strconv.Itoa(n))
}

// DetailTitle returns what a detail is: in this language, in any, or else its type.
func (l *language) DetailTitle(d Detail) string { return cmp.Or(l.pick(d.Title), d.Type) }

// DetailLabel returns what a member of a detail is.
func (l *language) DetailLabel(r DetailRow) string {
	if len(r.Label) == 0 {
		return l.T("details." + r.Name)
	}
	return cmp.Or(l.pick(r.Label), r.Name)
}

// pick returns the text for this language, or for one that it is a kind of, or for all others.
func (l *language) pick(of Texts) string {
	for tag := l.tag; tag != ""; tag = tag[:max(0, strings.LastIndexByte(tag, '-'))] {
		if text := of[tag]; text != "" {
			return text
		}
	}
	return of[""]
}

// Scope returns the description of a scope: a custom message, the operator's description, our own for the standard
// scopes, or else its name.
func (l *language) Scope(s ScopeLine) string {
	for i, texts := range l.texts {
		if i == l.own && s.Description != "" {
			break
		}
		if text, ok := texts["scope."+s.Name]; ok {
			return text
		}
	}
	if s.Description != "" {
		return s.Description
	}
	return s.Name
}
