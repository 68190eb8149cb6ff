package config

import (
	"bytes"
	"reflect"
	"strings"
)

// effect is what a member does. Every member of every unit has one: docs/configuration.md is made from this table, and a member whose function does
// not exist yet is refused when it is set to anything but its default.
type effect struct {
	// path is that of a member (members), or of an object with .* for all that is in it.
	path string
	// does says what the member changes. Empty: nothing yet.
	does string
	// test is the test that shows it, without Test.
	test string
	// later says what is missing before the member can do anything.
	later string
}

func does(path, what, test string) effect { return effect{path: path, does: what, test: test} }

func later(path, missing string) effect { return effect{path: path, later: missing} }

// What is missing.
const (
	noMigration = "there is no migration of persons yet"
	noMobile    = "there is no sign-in by mobile yet"
	noType      = "methods of this type do not exist yet; it can be stored with enabled false"
)

// effectOf returns the row of a member: its own, or that of an object around it.
func effectOf(path string) (effect, bool) {
	for _, e := range effects {
		if e.path == path || strings.HasSuffix(e.path, ".*") && strings.HasPrefix(path, strings.TrimSuffix(e.path, "*")) {
			return e, true
		}
	}
	return effect{}, false
}

// refuseIneffective refuses a member that does nothing yet and is not as by default. What a login method says matters once it is enabled, and
// those of the Caddyfile are not ours to judge.
func refuseIneffective(u *Units) error {
	d := Defaults()
	standard := map[string][]byte{}
	var err error
	look := func(un unit, of *Units, fn func(v reflect.Value, at, path string, inside bool)) {
		visit(reflect.ValueOf(un.of(of)).Elem(), un.name, un.name, false, fn)
	}
	for _, un := range table {
		look(un, &d, func(v reflect.Value, _, path string, inside bool) {
			if !inside {
				standard[path] = encode(v.Interface())
			}
		})
		judged := *u
		if un.name == "login_methods" {
			judged.LoginMethods.LoginMethods = judgedMethods(u.LoginMethods.LoginMethods)
		}
		look(un, &judged, func(v reflect.Value, at, path string, inside bool) {
			e, _ := effectOf(path)
			if err != nil || e.does != "" {
				return
			}
			if s, ok := standard[path]; ok && !inside {
				if !bytes.Equal(s, encode(v.Interface())) {
					err = refusal(at, e.later)
				}
			} else if !isEmpty(v) {
				err = refusal(at, e.later)
			}
		})
	}
	return err
}

// judgedMethods empties the methods that are not judged, so that places stay as they are in the body.
func judgedMethods(list []LoginMethod) []LoginMethod {
	out := make([]LoginMethod, len(list))
	for i, m := range list {
		if m.Enabled && m.Removable || m.ID == OwnMethod {
			out[i] = m
		}
	}
	return out
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}
