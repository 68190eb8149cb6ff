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

// templates are the same for every renderer, and take some 10 MB: a reload of the configuration makes no others.
var templates = sync.OnceValues(parseTemplates)

// parseTemplates returns each page by its name, joined with the frame and the parts that all share.
func parseTemplates() (map[string]*template.Template, error) {
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
	pages := map[string]*template.Template{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if strings.HasPrefix(name, "_") {
			continue
		}
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+e.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("page: template %s: %w", name, err)
		}
		pages[name] = t
	}
	return pages, nil
}
