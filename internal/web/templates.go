package web

import (
	"embed"
	"fmt"
	"html/template"
	"strings"
	"sync"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templateSet has the templates of the pages by their names. A page is parsed when it is first shown: all together take
// 10 MB, and a server that only checks tokens shows none of them.
type templateSet map[string]func() (*template.Template, error)

// templates are the same for every renderer, so a reload of the configuration parses nothing again.
var templates = sync.OnceValues(newTemplates)

// newTemplates parses the frame and the parts that all pages share.
func newTemplates() (templateSet, error) {
	shared, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"submitScript": func() template.JS { return submitScript },
		"icon":         icon,
		"themeColor":   themeColor,
	}).ParseFS(templateFiles, "templates/_*.html")
	if err != nil {
		return nil, err
	}
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	set := templateSet{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if strings.HasPrefix(name, "_") {
			continue
		}
		set[name] = sync.OnceValues(func() (*template.Template, error) {
			t, err := shared.Clone()
			if err != nil {
				return nil, err
			}
			return t.ParseFS(templateFiles, "templates/"+e.Name())
		})
	}
	return set, nil
}

// page returns the template of a page, joined with the shared ones.
func (s templateSet) page(name string) (*template.Template, error) {
	parse := s[name]
	if parse == nil {
		return nil, fmt.Errorf("page: unknown template %q", name)
	}
	t, err := parse()
	if err != nil {
		return nil, fmt.Errorf("page: template %s: %w", name, err)
	}
	return t, nil
}
