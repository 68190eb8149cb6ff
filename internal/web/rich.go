package web

import (
	"html/template"
	"strconv"
	"strings"
	"time"
)

// Foreign is a value of a text that is in English in every language, such as the words of a parser about a line. Rich
// marks it as a quotation in English.
type Foreign string

// Said returns foreign words as a text of their own. No words are no text.
func Said(words string) Text {
	if words == "" {
		return Text{}
	}
	return Say("console.said", "reason", Foreign(words))
}

// Rich returns the words of a text, with each moment as an element that a script shows in the reader's time zone, and
// foreign words as quotations. Without scripts moments stay in UTC.
func (f *frame) Rich(t Text) template.HTML {
	r := richer{frame: f}
	words := template.HTMLEscapeString(f.Say(r.marked(t)))
	if len(r.marks) > 0 {
		words = strings.NewReplacer(r.marks...).Replace(words)
	}
	return template.HTML(words) //nolint:gosec // G203: escaped in the lines above
}

// richer replaces by marks the values of a text that become elements.
type richer struct {
	*frame

	marks []string // and the element of each
}

func (r *richer) marked(t Text) Text {
	out := Text{t.Key, make([]any, len(t.Fill))}
	for i, v := range t.Fill {
		switch v := v.(type) {
		case time.Time:
			r.Needs("time")
			out.Fill[i] = r.mark(`<time datetime="` + v.UTC().Format(time.RFC3339) + `">` + template.HTMLEscapeString(r.Moment(v)) + `</time>`)
		case Foreign:
			out.Fill[i] = string(v)
			if base, _, _ := strings.Cut(r.Lang(), "-"); base != "en" {
				out.Fill[i] = r.mark(`<q lang="en">` + template.HTMLEscapeString(isolated(string(v))) + `</q>`)
			}
		case Text:
			out.Fill[i] = r.marked(v)
		default:
			out.Fill[i] = v
		}
	}
	return out
}

// mark returns what stands for an element until the words are escaped.
func (r *richer) mark(element string) string {
	mark := "\uE000" + strconv.Itoa(len(r.marks)) + "\uE001" // for private use, so no text has it
	r.marks = append(r.marks, mark, element)
	return mark
}
