package importer

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// authentikReader reads the users of a blueprint that `ak export_blueprint` has printed. (authentik 2025.10, "Export")
type authentikReader struct {
	left    []*yaml.Node
	groups  map[string]string   // names by primary key
	members map[string][]string // names of the groups that list a user, by the primary key of the user
	skipped int
}

// authentikEntry is an object of a blueprint. An export has its primary key as the identifier.
type authentikEntry struct {
	Model       string         `yaml:"model"`
	State       string         `yaml:"state"`
	Identifiers map[string]any `yaml:"identifiers"`
	Attrs       yaml.Node      `yaml:"attrs"`
}

func (e *authentikEntry) key() string { return fmt.Sprint(e.Identifiers["pk"]) }

// authentikUser are the attributes of a user, as authentik's API has them. (UserSerializer)
type authentikUser struct {
	Username   string         `yaml:"username"`
	Name       string         `yaml:"name"`
	Email      string         `yaml:"email"`
	Active     *bool          `yaml:"is_active"`
	Groups     []string       `yaml:"groups"`
	Attributes map[string]any `yaml:"attributes"`
	Type       string         `yaml:"type"`
	Path       string         `yaml:"path"`

	Rest map[string]any `yaml:",inline"`
}

func newAuthentik(r io.Reader) (*authentikReader, error) {
	var file struct {
		Entries []yaml.Node `yaml:"entries"`
	}
	if err := readYAML(r, &file); err != nil {
		return nil, err
	}
	if len(file.Entries) == 0 {
		return nil, errors.New("the file is not a blueprint of authentik (ak export_blueprint): it has no entries")
	}
	a := &authentikReader{groups: map[string]string{}, members: map[string][]string{}}
	for i := range file.Entries {
		var e authentikEntry
		if err := file.Entries[i].Decode(&e); err != nil || e.Model == "" {
			return nil, fmt.Errorf("line %d: the entry is not one of authentik", file.Entries[i].Line)
		}
		switch e.Model {
		case "authentik_core.user":
			a.left = append(a.left, &file.Entries[i])
		case "authentik_core.group":
			var g struct {
				Name  string   `yaml:"name"`
				Users []string `yaml:"users"`
			}
			if err := e.Attrs.Decode(&g); err != nil || g.Name == "" {
				return nil, fmt.Errorf("line %d: the group has no name, or a member of another kind than authentik's", file.Entries[i].Line)
			}
			a.groups[e.key()] = g.Name
			for _, user := range g.Users {
				a.members[user] = append(a.members[user], g.Name)
			}
		}
	}
	return a, nil
}

// Skipped implements Skipper. Service accounts are skipped: they are machines.
func (a *authentikReader) Skipped() int { return a.skipped }

// Next implements Reader.
func (a *authentikReader) Next() (p Person, line int, err error) {
	for len(a.left) > 0 {
		node := a.left[0]
		a.left = a.left[1:]
		var e authentikEntry
		var u authentikUser
		if err := errors.Join(node.Decode(&e), e.Attrs.Decode(&u)); err != nil {
			return p, node.Line, &LineError{node.Line, notOf("authentik", err)}
		}
		if strings.HasSuffix(u.Type, "service_account") || e.State == "absent" {
			a.skipped++
			continue
		}
		if u.Username == "" {
			return p, node.Line, &LineError{node.Line, "the user has no username"}
		}
		return a.person(&e, &u), node.Line, nil
	}
	return p, 0, io.EOF
}

// person returns the person that a user becomes.
func (a *authentikReader) person(e *authentikEntry, u *authentikUser) Person {
	p := Person{Username: u.Username, Name: u.Name, Email: u.Email, Inactive: u.Active != nil && !*u.Active, Groups: a.members[e.key()]}
	for _, key := range u.Groups {
		switch name := a.groups[key]; {
		case name == "":
			p.note("a group does not come, since the file does not have it")
		case !slices.Contains(p.Groups, name):
			p.Groups = append(p.Groups, name)
		}
	}
	p.note("comes without a password: authentik exports no hashes")
	if u.Type != "" && u.Type != "internal" {
		p.note("the type " + u.Type + " does not come")
	}
	if u.Path != "" && u.Path != "users" {
		p.note("the path does not come")
	}
	for _, name := range slices.Sorted(maps.Keys(u.Attributes)) {
		switch v := u.Attributes[name].(type) {
		case string:
			p.custom(name, v)
		case map[string]any:
			if locale, ok := v["locale"].(string); ok && name == "settings" && len(v) == 1 {
				p.Locale = locale
				continue
			}
			p.note("the attribute " + name + " does not come: it is no text")
		default:
			p.note("the attribute " + name + " does not come: it is no text")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Rest)) {
		if v := u.Rest[name]; v != nil && v != "" && v != false {
			p.note(name + " does not come")
		}
	}
	return p
}
