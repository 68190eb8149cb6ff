package layout

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// groups are those of the navigation, each with the names of its screens.
var groups = []struct {
	name    string
	screens []string
}{
	{"people", []string{"persons", "groups", "sessions", "requests"}},
	{"access", []string{"sites", "applications", "policies", "limits", "providers", "api-clients", "refusals"}},
	{"activity", []string{"overview", "events", "calls", "queue", "alerts"}},
	{"system", []string{"settings", "messages", "keys", "storage"}},
}

// SearchPath is the path of the screen of the search box, below the console. It has its words as q.
const SearchPath = "/search"

// mostInBadge is the highest number that a badge shows.
const mostInBadge = 99

// nav returns the navigation for the role, with what waits on its screens.
func (f *Frame) nav(v *Visit) (*web.Nav, error) {
	n, err := f.Identity.Front.Nav(v.Request)
	if err != nil {
		return nil, err
	}
	n.Label, n.Entries, n.Back, n.BackName = "console.menu", nil, "", ""
	if n.Search = Root + SearchPath; v.Screen.Path == SearchPath {
		n.Searched = v.URL.Query().Get("q")
	}
	var waiting map[string]int
	if f.Waiting != nil {
		if waiting, err = f.Waiting(v); err != nil {
			return nil, err
		}
	}
	current := f.currentEntry(v.URL.Path)
	for _, g := range groups {
		group := web.NavGroup{Label: "console.group." + g.name}
		for _, name := range g.screens {
			s := f.screen(name)
			if s == nil || v.Role < s.Role {
				continue
			}
			e := web.NavEntry{Label: "console." + name + ".title", URL: Root + s.Path, Icon: s.Icon, Current: name == current}
			if count := waiting[name]; count > 0 {
				e.Badge, e.Waiting = strconv.Itoa(count), web.Say("console.waits."+name, "n", count)
			}
			if waiting[name] > mostInBadge {
				e.Badge = strconv.Itoa(mostInBadge) + "+"
				e.Waiting = web.Say("console.waits."+name, "n", e.Badge)
			}
			group.Entries = append(group.Entries, e)
		}
		if len(group.Entries) > 0 {
			n.Groups = append(n.Groups, group)
		}
	}
	return n, nil
}

// screen returns the screen of a name, or nil.
func (f *Frame) screen(name string) *Screen {
	i := slices.IndexFunc(f.screens, func(s *Screen) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return f.screens[i]
}

// currentEntry returns the name of the screen of the navigation that a path is on or below. Empty: none
func (f *Frame) currentEntry(path string) (name string) {
	longest := 0
	for _, s := range f.screens {
		at := Root + s.Path
		if s.Icon != "" && (path == at || at != Root && strings.HasPrefix(path, at+"/")) && len(at) > longest {
			name, longest = s.Name, len(at)
		}
	}
	return name
}

// Command is a page of the navigation, or something that can be done on one.
type Command struct{ Label, Screen, URL string }

// Commands returns what the role can open and begin from any page.
func (f *Frame) Commands(v *Visit) (out []Command) {
	for _, g := range groups {
		for _, name := range g.screens {
			s := f.screen(name)
			if s == nil || v.Role < s.Role {
				continue
			}
			out = append(out, Command{"console." + name + ".title", name, Root + s.Path})
			for _, a := range s.Acts {
				if !a.Hidden && a.When == nil && a.May == nil && v.Role >= max(s.Role, a.Role) {
					out = append(out, Command{"console.act." + a.Name, name, Root + s.Path + "/" + a.Name})
				}
			}
		}
	}
	return out
}
