package web

import (
	"html/template"
	"strconv"
	"strings"
	"time"
)

// Rich returns the words of a text, with each moment as an element that a script shows in the reader's time zone.
// Without scripts moments stay in UTC.
func (f *frame) Rich(t Text) template.HTML {
	fill := make([]any, len(t.Fill))
	copy(fill, t.Fill)
	var marks []string
	for i, v := range fill {
		at, ok := v.(time.Time)
		if !ok {
			continue
		}
		f.Needs("time")
		mark := "\uE000" + strconv.Itoa(i) + "\uE001" // for private use, so no text has it
		marks = append(marks, mark, `<time datetime="`+at.UTC().Format(time.RFC3339)+`">`+template.HTMLEscapeString(f.Moment(at))+`</time>`)
		fill[i] = mark
	}
	words := template.HTMLEscapeString(f.Say(Text{t.Key, fill}))
	if len(marks) > 0 {
		words = strings.NewReplacer(marks...).Replace(words)
	}
	return template.HTML(words) //nolint:gosec // G203: escaped in the lines above
}
