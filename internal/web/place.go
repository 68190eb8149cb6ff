package web

import (
	"html/template"
	"path/filepath"
	"regexp"
	"strings"
)

// SetFiles sets the function that returns the files of the configuration. Pages of the console show a place in one of
// them, such as /etc/caddy/Caddyfile:56, by the name of the file, with its directory only where two files share a name;
// the whole path is shown on hover. Call SetFiles before the renderer is used, if at all.
func (p *Renderer) SetFiles(files func() []string) { p.files = files }

// lineOf matches the rest of a place after its file.
var lineOf = regexp.MustCompile(`^:\d+`)

// placed shortens the places in text that is HTML already.
func (f *frame) placed(escaped template.HTML) template.HTML {
	text := string(escaped)
	if f.files == nil || !strings.ContainsRune(text, filepath.Separator) {
		return escaped
	}
	all := f.files()
	for _, file := range all {
		short := filepath.Base(file)
		for _, other := range all {
			if other != file && filepath.Base(other) == short {
				short = filepath.Join(filepath.Base(filepath.Dir(file)), short)
				break
			}
		}
		full, name := template.HTMLEscapeString(file), template.HTMLEscapeString(short)
		if full == name || !strings.Contains(text, full+":") {
			continue
		}
		var b strings.Builder
		for {
			before, after, found := strings.Cut(text, full)
			b.WriteString(before)
			if !found {
				break
			}
			line := lineOf.FindString(after)
			if text = after[len(line):]; line == "" || strings.HasSuffix(before, `"`) {
				b.WriteString(full + line) // it is something else
				continue
			}
			b.WriteString(`<span title="` + full + line + `">` + name + line + `</span>`)
		}
		text = b.String()
	}
	return template.HTML(text) //nolint:gosec // escaped
}
