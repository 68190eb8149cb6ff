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
	noSAML      = "there is no SAML identity provider yet"
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

// refuseIneffective refuses a member that does nothing yet and is not as by default, unless it is stored already: what an earlier version has taken
// must not stand in the way of other changes. What a login method says matters once it is enabled, and those of the Caddyfile are not ours to judge.
func refuseIneffective(from, to *Units) error {
	stored := map[string]int{}
	ineffective(from, func(_, path string, value []byte, _ string) { stored[path+"="+string(value)]++ })
	var err error
	ineffective(to, func(at, path string, value []byte, missing string) {
		key := path + "=" + string(value)
		if stored[key]--; stored[key] < 0 && err == nil {
			err = refusal(at, missing)
		}
	})
	return err
}

// ineffective calls fn for every member that does nothing yet and is not as by default.
func ineffective(u *Units, fn func(at, path string, value []byte, missing string)) {
	d := Defaults()
	judged := *u
	judged.LoginMethods.LoginMethods = judgedMethods(u.LoginMethods.LoginMethods)
	for _, un := range table {
		standard := map[string][]byte{}
		d.visitMembers(un, func(v reflect.Value, p place) {
			if !p.entry {
				standard[p.path] = encode(v.Interface())
			}
		})
		judged.visitMembers(un, func(v reflect.Value, p place) {
			e, _ := effectOf(p.path)
			if e.does != "" {
				return
			}
			value := encode(v.Interface())
			if s, ok := standard[p.path]; ok && !p.entry {
				if !bytes.Equal(s, value) {
					fn(p.at, p.path, value, e.later)
				}
			} else if !isEmpty(v) {
				fn(p.at, p.path, value, e.later)
			}
		})
	}
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
