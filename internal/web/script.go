package web

import (
	"embed"
	"path"
	"slices"
	"strings"
)

// The scripts that pages can work without: each adds something that HTML alone cannot do. A page names the scripts that
// it needs while it is rendered, and its policy allows our scripts only then.
//
//go:embed assets/*.js
var scriptFiles embed.FS

// scriptSet is the scripts that one page needs.
type scriptSet struct{ names []string }

func (n *scriptSet) any() bool { return n != nil && len(n.names) > 0 }

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

// Needs notes that the page uses one of our scripts. It writes nothing.
func (f *frame) Needs(script string) string {
	if f.needed != nil && !slices.Contains(f.needed.names, script) {
		f.needed.names = append(f.needed.names, script)
	}
	return ""
}

// Scripts returns the paths of the scripts that the page has needed so far.
func (f *frame) Scripts() []string {
	var out []string
	for _, name := range f.needed.names {
		out = append(out, f.scripts[name])
	}
	return out
}
