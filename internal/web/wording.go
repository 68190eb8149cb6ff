package web

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Source says where a text that is not built in comes from.
type Source struct {
	// Layer is the place among those that SetOverrides has set. The extension directory is after them.
	Layer int
	// Locale is that of the text, in lower case and with underscores. Empty: it is for every language
	Locale string
}

// Wording is a message in one language.
type Wording struct {
	Key  string
	Text string // that people read
	// BuiltIn is our own text. Empty: we have no such message
	BuiltIn string
	Source  *Source // nil: it is built in
}

// Spoken is a language of the pages.
type Spoken struct {
	Locale string // in lower case and with underscores, such as nl_nl
	Tag    string // BCP 47
	Name   string // in the language itself
}

// Spoken returns every language of the pages, the default first, those included that only other applications ask for.
func (p *Renderer) Spoken(ctx context.Context) (out []Spoken) {
	for _, l := range p.messages(ctx).languages {
		name := l.ownName()
		if strings.Count(l.name, "_") > 1 {
			name = strings.ReplaceAll(l.name, "_", "-")
		}
		out = append(out, Spoken{l.name, l.tag, name})
	}
	return out
}

// spoken returns the language of a locale, or the default.
func (p *Renderer) spoken(ctx context.Context, locale string) *language {
	c := p.messages(ctx)
	return cmp.Or(c.named(locale), c.languages[0])
}

// WordsOf returns the messages of one language of the pages.
func (p *Renderer) WordsOf(ctx context.Context, locale string) Words { return p.spoken(ctx, locale) }

// Wordings returns every message in a language of the pages, by its key.
func (p *Renderer) Wordings(ctx context.Context, locale string) []Wording {
	l := p.spoken(ctx, locale)
	keys := map[string]bool{}
	for i, texts := range l.texts {
		for key := range texts {
			if i < l.own || !strings.HasPrefix(key, addressed) {
				keys[key] = true
			}
		}
	}
	out := make([]Wording, 0, len(keys))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, l.wording(key))
	}
	return out
}

// Wording returns one message in a language of the pages, and whether there is one.
func (p *Renderer) Wording(ctx context.Context, locale, key string) (Wording, bool) {
	l := p.spoken(ctx, locale)
	_, ok := l.find(key)
	return l.wording(key), ok
}

func (l *language) wording(key string) Wording {
	out := Wording{Key: key}
	for i, texts := range l.texts {
		text, ok := texts[key]
		switch {
		case !ok:
		case i >= l.own:
			out.BuiltIn = text
			if out.Source == nil {
				out.Text = text
			}
			return out
		case out.Source == nil:
			out.Text, out.Source = text, &l.from[i]
		}
	}
	return out
}

var placeholder = regexp.MustCompile(`\{([A-Za-z][A-Za-z0-9_]*)\}`)

// Placeholders returns the names in braces in a text, sorted.
func Placeholders(text string) (out []string) {
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PlaceholdersOf returns which names in braces are filled in in a built-in message, and which of them each of its texts
// has. known: there is such a message.
func PlaceholdersOf(key string) (filled, needed []string, known bool) {
	for _, texts := range builtIn() {
		for _, k := range []string{key, addressed + key} {
			text, ok := texts[k]
			if !ok {
				continue
			}
			has := Placeholders(text)
			if !known {
				needed, known = has, true
			}
			needed = slices.DeleteFunc(slices.Clone(needed), func(name string) bool { return !slices.Contains(has, name) })
			filled = append(filled, has...)
		}
	}
	slices.Sort(filled)
	return slices.Compact(filled), needed, known
}

// CheckMessage returns what is wrong with a message that replaces a built-in one.
func CheckMessage(key, text string) error { return checkMessage(key, text) }

// Accents are the brand's color as links and buttons show it, light first, with the contrast of the text on it and of
// itself on the card.
func (p *Renderer) Accents() (out [2]Accent) {
	brand, err := parseColor(cmp.Or(p.cfg.Brand.Color, defaultColor))
	if err != nil { // New has parsed it
		brand = mustColor(defaultColor)
	}
	for i, of := range []palette{light, dark} {
		accent, ink := of.accent(brand)
		out[i] = Accent{
			Color: accent.String(), Ink: ink.String(), OnCard: contrast(accent, of.get("card")), OfInk: contrast(accent, ink),
			Changed: accent.String() != brand.String(),
		}
	}
	return out
}

// Accent is a color of one scheme.
type Accent struct {
	Color, Ink    string  // #rrggbb
	OnCard, OfInk float64 // contrasts, from 1 to 21
	Changed       bool    // it was made lighter or darker to be legible
}

// Brand returns how the pages present the operator.
func (p *Renderer) Brand() Brand { return p.cfg.Brand }

// LogoPath returns the path of the operator's logo. Empty: the name stands alone
func (p *Renderer) LogoPath() string { return p.assets.logo }
