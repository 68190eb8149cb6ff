package config

import (
	"bytes"
	"reflect"
	"strings"
)

// effect is what a member does. Every member of every unit has one. docs/configuration.md is made from this table, and
// a member whose function does not exist yet must keep its default.
type effect struct {
	// path is that of a member, or of an object with .* for all its members.
	path string
	// does says what the member changes. It is empty while the member does nothing.
	does string
	// test is the test that shows it, without the prefix Test.
	test string
	// later says what is missing before the member can do anything.
	later string
}

func does(path, what, test string) effect { return effect{path: path, does: what, test: test} }

func later(path, missing string) effect { return effect{path: path, later: missing} }

// The functions that are missing.
const (
	noAPI       = "there is no such API"
	noSAML      = "a sign-in at a SAML provider is always kept on the server; its cookie only binds the browser"
	noType      = "methods of this type do not exist yet; it can be stored with enabled false"
	noInstagram = "Instagram signs nobody in: Meta ended the API for that (Basic Display) on 4 December 2024. Use FACEBOOK; it can be stored with enabled false"
	noIDIN      = "iDIN needs a contract with an acquiring bank, its addresses and its certificates, and there is nobody without them to test against; it can be stored with enabled false"
)

// neverTypes are the types of login methods that wait for others than us.
var neverTypes = map[string]string{TypeInstagram: noInstagram, TypeIDIN: noIDIN}

// effectOf returns the row of a member: its own, or that of an object around it.
func effectOf(path string) (effect, bool) {
	for _, e := range effects {
		if e.path == path || strings.HasSuffix(e.path, ".*") && strings.HasPrefix(path, strings.TrimSuffix(e.path, "*")) {
			return e, true
		}
	}
	return effect{}, false
}

// refuseIneffective refuses a member that does nothing yet and differs from its default, unless that value is already
// stored: a value that an earlier version accepted must not block other changes. A login method is judged once it is
// enabled; those of the Caddyfile are never judged.
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

// ineffective calls fn for every member that does nothing yet and differs from its default.
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

// judgedMethods empties the methods that are not judged, so that the indexes stay those of the body.
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
