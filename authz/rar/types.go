// Package rar handles rich authorization requests (RFC 9396): it checks authorization details against the types that an
// operator has declared, compares their extent, and describes them to people.
// (docs/decisions/authorization.md#authorization-details)
package rar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Kinds of values of a Member.
const (
	KindText    = "text"
	KindNumber  = "number"
	KindBoolean = "boolean"
)

// Type is a type of authorization details. A request of it has the members that stand here, and no others.
type Type struct {
	Name        string
	Description web.Texts
	// What the common members of RFC 9396 2.2 can have. Empty: requests do not have the member.
	Locations, Actions, DataTypes, Privileges []string
	// Identifier lets requests name one thing at the API.
	Identifier bool
	Members    []Member
	// Required are the members that each request has.
	Required []string
	// Level is the authentication level of the person. 0: any.
	Level int
	// Open lets clients ask for it that no one has registered.
	Open bool
	// Always asks the person at each request, whatever was allowed before.
	Always bool
}

// Member is a member of a type that RFC 9396 does not name.
type Member struct {
	Path  string // with a point between a member and one of its own: amount.currency
	Label web.Texts
	Kind  string   // Default: KindText
	Of    []string // the values that it can have. Default: any
}

// The common members. (RFC 9396 2.2)
const (
	memberType       = "type"
	memberLocations  = "locations"
	memberActions    = "actions"
	memberDataTypes  = "datatypes"
	memberIdentifier = "identifier"
	memberPrivileges = "privileges"
)

var common = []string{memberType, memberLocations, memberActions, memberDataTypes, memberIdentifier, memberPrivileges}

const (
	maxPath     = 4 // members in each other
	maxNameText = 64
)

// list returns what a common member that is a list can have.
func (t *Type) list(name string) []string {
	switch name {
	case memberLocations:
		return t.Locations
	case memberActions:
		return t.Actions
	case memberDataTypes:
		return t.DataTypes
	case memberPrivileges:
		return t.Privileges
	}
	return nil
}

// member returns the declared member at a path, or nil.
func (t *Type) member(path string) *Member {
	for i := range t.Members {
		if t.Members[i].Path == path {
			return &t.Members[i]
		}
	}
	return nil
}

// Validate returns all that is wrong with a type, or nil.
func (t *Type) Validate() error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if err := CheckName(t.Name); err != nil {
		wrong = append(wrong, err)
	}
	if t.Level < 0 || t.Level > 4 {
		add("level: %d is not between 1 and 4", t.Level)
	}
	for i, m := range t.Members {
		if err := CheckPath(m.Path); err != nil {
			add("member %s: %w", m.Path, err)
		}
		if err := checkKind(m.Kind); err != nil {
			add("member %s: kind: %w", m.Path, err)
		}
		for j, other := range t.Members {
			switch {
			case i < j && other.Path == m.Path:
				add("member %s is there twice", m.Path)
			case strings.HasPrefix(other.Path, m.Path+"."):
				add("member %s has the member %s, so it has no value of its own: remove one of them", m.Path, other.Path)
			}
		}
	}
	for _, name := range t.Required {
		if t.member(name) == nil && len(t.list(name)) == 0 && (name != memberIdentifier || !t.Identifier) {
			add("required: the type has no member %q", name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("authorization_details %s: %w", t.Name, errors.Join(wrong...))
}

// CheckName says what is wrong with the name of a type.
func CheckName(s string) error {
	if s == "" || len(s) > 128 ||
		strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"\<>&`, c) }) {
		return fmt.Errorf("%q is not the name of a type: 1 to 128 printable characters without spaces, such as payment_initiation", s)
	}
	return nil
}

// CheckPath says what is wrong with the name of a member.
func CheckPath(s string) error {
	parts := strings.Split(s, ".")
	switch {
	case slices.Contains(common, parts[0]):
		return fmt.Errorf("%s has an option of its own", parts[0])
	case len(parts) > maxPath:
		return fmt.Errorf("more than %d members in each other", maxPath)
	}
	for _, p := range parts {
		if p == "" || len(p) > maxNameText || strings.ContainsFunc(p, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			return fmt.Errorf("%q is not the name of a member, such as amount or amount.currency", s)
		}
	}
	return nil
}

// checkKind says what is wrong with the kind of a member.
func checkKind(s string) error {
	switch s {
	case "", KindText, KindNumber, KindBoolean:
		return nil
	}
	return fmt.Errorf("%q is not one of text, number, boolean", s)
}

// isShown reports whether people can read a text as it is: it has no control characters, and none that hide others or
// change their order.
func isShown(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool {
		return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) || c == utf8.RuneError
	})
}
