package web

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Nav is the navigation at the side of a person's own account pages, or of the console, where it has groups.
type Nav struct {
	Entries []NavEntry
	Groups  []NavGroup
	// Name is the person's name or username, and SignOut the token of the form that signs them out.
	Name, SignOut string
	// Back is the link to the page or application that the person came from, and BackName its name. Empty: unknown
	Back, BackName string
	// Seeing says that the account is looked at by an administrator. nil: it is the own one
	Seeing *Seeing
	// Label is the message that names it. Default: account.menu
	Label string
	// Search is the path of the page that searches for q, and Searched what was searched for. Empty: there is no search
	Search, Searched string
}

// Seeing is the banner of an account that an administrator looks at.
type Seeing struct {
	Name, By     string // whose account it is, and who looks at it
	Until        time.Time
	Action, CSRF string // of the form that ends it
}

// Text returns the text of the banner.
func (x *Seeing) Text() Text {
	return Say("seeing.text", "name", x.Name, "by", x.By, "time", x.Until)
}

// MenuLabel is the message that names the navigation for those who do not see it.
func (n *Nav) MenuLabel() string { return cmp.Or(n.Label, "account.menu") }

// Initials are those of the name.
func (n *Nav) Initials() string { return Initials(n.Name) }

// Initials returns the first letters of the first and the last word of a person's name.
func Initials(name string) string {
	words := strings.Fields(name)
	if len(words) > 1 {
		words = []string{words[0], words[len(words)-1]}
	}
	var out []rune
	for _, w := range words {
		c, _ := utf8.DecodeRuneInString(w)
		out = append(out, unicode.ToUpper(c))
	}
	return string(out)
}

// Card is a link to a part of the account, with its state. Title is a message; Kind is that of a notice.
type Card struct {
	Icon, Title, URL string
	Text             Text
	Kind             string
}

// NavEntry is a link. Label is a message.
type NavEntry struct {
	Label, URL, Icon string
	Current          bool
	// Badge is the number of matters that wait there, and Waiting the same in words. Empty: none
	Badge   string
	Waiting Text
}

// entry is the data of the template "entry".
type entry struct {
	NavEntry

	Name, Words string
}

// Entry returns an entry of the navigation with its words.
func (f *frame) Entry(e NavEntry) entry {
	out := entry{NavEntry: e, Name: f.T(e.Label)}
	if e.Badge != "" {
		out.Words = f.Say(e.Waiting)
	}
	return out
}

// NavGroup is a group of links. Label is a message.
type NavGroup struct {
	Label   string
	Entries []NavEntry
}

// Current returns the label of the entry of the page. Empty: the page has none
func (n *Nav) Current() string {
	for _, g := range n.Groups {
		for _, e := range g.Entries {
			if e.Current {
				return e.Label
			}
		}
	}
	return ""
}

// Dashboard is the data of dashboard: a page of a person's own account, in parts. Its messages are account.<Key>.title
// and account.<Key>.text.
type Dashboard struct {
	Key string
	// Done says what was just done; Problem what to do next, after Wait seconds. Both are messages. Empty: nothing
	Done, Problem string
	Wait          int
	// Cards are the state of the parts of the account, below whose it is with these further names. Empty: none
	Cards  []Card
	Names  []string
	Parts  []Part
	Cancel string // link back to the page above this one. Empty: none
}

// Part is a part of such a page: the state first, then the possible actions. Everything is optional.
type Part struct {
	ID          string // unique on the page; needed with a Title
	Title, Text Text
	Facts       []Fact
	Rows        []Row
	Empty       string // message in place of missing rows
	Code        *Code
	Form        *PartForm
	Links       []Action // plain links, without forms
}

// Code is a QR code for another device, with the same content as text for people who cannot scan it. Text stands
// between the two. Without QR it is a text to copy.
type Code struct {
	QR    QR
	Text  Text
	Value string
}

// Fact is a name and a value. Label is a message; Text stands in place of the value if it is not empty.
type Fact struct {
	Label, Value string
	Text         Text
}

// PartForm is the form of a part. Submit is a message.
type PartForm struct {
	Action, CSRF, Submit string
	Hidden               []Hidden
	Fields               []Field
	Quiet                bool // it is not the main form of the page
	Danger               bool // it takes something away
}

// Moment is a point in time, in words of the language.
func (l *language) Moment(t time.Time) string {
	t = t.UTC()
	months := l.T("date.months")
	return l.T("date.moment", "day", t.Day(), "month", word(months, int(t.Month())-1), "year", t.Year(), "time", t.Format("15:04"))
}

// Day is a day of a year, in words of the language.
func (l *language) Day(t time.Time) string {
	t = t.UTC()
	return l.T("date.day", "day", t.Day(), "month", word(l.T("date.months"), int(t.Month())-1))
}

// word returns a word of a list with spaces between them.
func word(list string, i int) string {
	if words := strings.Fields(list); i < len(words) {
		return words[i]
	}
	return ""
}

// Offered is a language that people can choose.
type Offered struct{ Tag, Name string }

// Offered returns the languages to choose from, each by its own name for itself.
func (p *Renderer) Offered(ctx context.Context) (out []Offered) {
	for _, l := range p.messages(ctx).offered {
		out = append(out, Offered{l.tag, l.ownName()})
	}
	return out
}
