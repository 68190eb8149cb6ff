package rar

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// Bounds of what a client asks for. A person is shown all of it.
const (
	maxSize    = 8 << 10 // bytes
	maxDepth   = 6
	maxDetails = 20
	maxList    = 50
	maxText    = 512 // characters
	maxNumber  = 40
)

// Types are the types of one configuration. They are never changed.
type Types struct{ byName map[string]*Type }

// New returns the types, or says all that is wrong with them.
func New(all []Type) (*Types, error) {
	t := &Types{byName: map[string]*Type{}}
	var wrong []error
	for i := range all {
		if err := all[i].Validate(); err != nil {
			wrong = append(wrong, err)
		}
		if t.byName[all[i].Name] != nil {
			wrong = append(wrong, fmt.Errorf("authorization_details %s is declared twice", all[i].Name))
		}
		t.byName[all[i].Name] = &all[i]
	}
	return t, errors.Join(wrong...)
}

// Names are the names of the types, in order.
func (t *Types) Names() []string { return slices.Sorted(maps.Keys(t.byName)) }

// Has reports whether a type is declared.
func (t *Types) Has(name string) bool { return t.byName[name] != nil }

// Open reports whether clients can ask for a type that no one has registered.
func (t *Types) Open(name string) bool { return t.byName[name] != nil && t.byName[name].Open }

// Level is the highest authentication level that one of the types demands. 0: any.
func (t *Types) Level(names []string) (level int) {
	for _, name := range names {
		if of := t.byName[name]; of != nil {
			level = max(level, of.Level)
		}
	}
	return level
}

// Always reports whether one of the types is asked for at each request.
func (t *Types) Always(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return t.byName[name] != nil && t.byName[name].Always })
}

// Read checks what a client asks for and returns it in its only form: JSON without spaces, members in the order of
// their names. Of equal details one stays. The error says what is wrong without a value of the client.
func (t *Types) Read(text string) (string, error) {
	if len(text) > maxSize {
		return "", fmt.Errorf("authorization_details has more than %d bytes", maxSize)
	}
	if err := strictjson.Check([]byte(text), maxDepth); err != nil {
		return "", errors.New("authorization_details is not JSON, or nests too deep")
	}
	v, err := strictjson.Value([]byte(text))
	if err != nil {
		return "", errors.New("authorization_details has a member twice")
	}
	all, ok := v.([]any)
	if !ok || len(all) == 0 || len(all) > maxDetails {
		return "", fmt.Errorf("authorization_details is not an array of 1 to %d objects", maxDetails)
	}
	var out []string
	for _, one := range all {
		d, ok := one.(map[string]any)
		if !ok {
			return "", errors.New("one of authorization_details is not an object")
		}
		if err := t.check(d); err != nil {
			return "", err
		}
		raw, err := json.Marshal(d)
		if err != nil {
			return "", errors.New("authorization_details cannot be read")
		}
		if !slices.Contains(out, string(raw)) {
			out = append(out, string(raw))
		}
	}
	return Join(out), nil
}

// check holds that a detail is of a declared type, with members of that type alone.
func (t *Types) check(d map[string]any) error {
	name, _ := d[memberType].(string)
	of := t.byName[name]
	if of == nil {
		return errors.New("a type of authorization_details is missing or unknown")
	}
	for member, v := range d {
		if err := of.checkMember(member, v); err != nil {
			return fmt.Errorf("authorization_details of the type %s: %w", of.Name, err)
		}
	}
	for _, path := range of.Required {
		if !has(d, path) {
			return fmt.Errorf("authorization_details of the type %s: the member %s is missing", of.Name, path)
		}
	}
	return nil
}

func (t *Type) checkMember(name string, v any) error {
	switch name {
	case memberType:
		return nil
	case memberLocations, memberActions, memberDataTypes, memberPrivileges:
		return checkList(name, v, t.list(name))
	case memberIdentifier:
		if s, ok := v.(string); !t.Identifier || !ok || !isValue(s) {
			return errors.New("identifier is not allowed, or not a text that can be shown")
		}
		return nil
	}
	if strings.Contains(name, ".") { // it would pass for a member of a member
		return errNoMember
	}
	return t.checkOwn(name, v)
}

var errNoMember = errors.New("a member is not one of the type")

// checkList holds that a common member is a list of some of its values.
func checkList(name string, v any, of []string) error {
	all, ok := v.([]any)
	if !ok || len(all) == 0 || len(all) > maxList {
		return fmt.Errorf("%s is not a list of texts", name)
	}
	for i, one := range all {
		s, ok := one.(string)
		switch {
		case !ok || !slices.Contains(of, s):
			return fmt.Errorf("%s has a value that the type does not have", name)
		case slices.Contains(all[:i], one):
			return fmt.Errorf("%s has a value twice", name)
		}
	}
	return nil
}

// checkOwn holds that what stands at a path is declared: a value, a list of values, or an object of declared members.
func (t *Type) checkOwn(path string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return errors.New("a member is an empty object")
		}
		for name, inner := range v {
			if strings.Contains(name, ".") {
				return errNoMember
			}
			if err := t.checkOwn(path+"."+name, inner); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if len(v) == 0 || len(v) > maxList {
			return errors.New("a list is empty or too long")
		}
		for _, one := range v {
			if err := t.checkValue(path, one); err != nil {
				return err
			}
		}
		return nil
	}
	return t.checkValue(path, v)
}

func (t *Type) checkValue(path string, v any) error {
	m := t.member(path)
	if m == nil {
		return errNoMember
	}
	text, ok := "", false
	switch v := v.(type) {
	case string:
		text, ok = v, m.Kind == "" || m.Kind == KindText
	case json.Number:
		text, ok = string(v), m.Kind == KindNumber && len(v) <= maxNumber
	case bool:
		text, ok = fmt.Sprint(v), m.Kind == KindBoolean
	}
	switch {
	case !ok:
		return fmt.Errorf("%s is not of the kind that it must have", path)
	case !isValue(text):
		return fmt.Errorf("%s is empty, too long, or cannot be shown", path)
	case len(m.Of) > 0 && !slices.Contains(m.Of, text):
		return fmt.Errorf("%s has a value that the type does not have", path)
	}
	return nil
}

func isValue(s string) bool {
	return strings.TrimSpace(s) != "" && utf8.RuneCountInString(s) <= maxText && isShown(s)
}

// has reports whether there is something at a path.
func has(d map[string]any, path string) bool {
	if v, there := d[path]; there {
		return v != nil
	}
	name, rest, deeper := strings.Cut(path, ".")
	inner, ok := d[name].(map[string]any)
	return deeper && ok && has(inner, rest)
}

// parse reads one of the details that Read has returned.
func parse(one string) (d map[string]any) {
	r := json.NewDecoder(strings.NewReader(one))
	r.UseNumber()
	if r.Decode(&d) != nil {
		return nil
	}
	return d
}
