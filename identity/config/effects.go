package config

import (
	"bytes"
	"reflect"

	"github.com/gatehouse-id/gatehouse/identity/config/effect"
)

// neverTypes are the types of login methods that wait for others than us.
var neverTypes = map[string]string{TypeInstagram: effect.NoInstagram, TypeIDIN: effect.NoIDIN}

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
			e, _ := effect.Of(p.path)
			if e.Does != "" {
				return
			}
			value := encode(v.Interface())
			if s, ok := standard[p.path]; ok && !p.entry {
				if !bytes.Equal(s, value) {
					fn(p.at, p.path, value, e.Later)
				}
			} else if !isEmpty(v) {
				fn(p.at, p.path, value, e.Later)
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
