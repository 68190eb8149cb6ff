package page

import (
	"embed"
	"path"
	"slices"
	"strings"
)

// The scripts that pages can do without: each adds to a page what a browser cannot do from HTML alone. A page names those that it needs while it is
// written, and its policy lets scripts of ours run only then.
//
//go:embed assets/*.js
var scriptFiles embed.FS

// needed are the scripts of one page.
type needed struct{ names []string }

func (n *needed) any() bool { return n != nil && len(n.names) > 0 }

// addScripts adds every script by its name.
func (a *assets) addScripts() error {
	a.scripts = map[string]string{}
	entries, err := scriptFiles.ReadDir("assets")
	if err != nil {
		return err
	}
	for _, e := range entries {
		body, err := scriptFiles.ReadFile(path.Join("assets", e.Name()))
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(e.Name(), ".js")
		a.scripts[name] = a.add(name, "js", "text/javascript; charset=utf-8", body)
	}
	return nil
}

// Needs notes that the page works with a script of ours. It writes nothing.
func (f frame) Needs(script string) string {
	if f.needed != nil && !slices.Contains(f.needed.names, script) {
		f.needed.names = append(f.needed.names, script)
	}
	return ""
}

// Scripts returns the paths of those that the page has needed up to here.
func (f frame) Scripts() []string {
	var out []string
	for _, name := range f.needed.names {
		out = append(out, f.scripts[name])
	}
	return out
}
