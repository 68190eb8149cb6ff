package settings

import (
	"bytes"
	"reflect"

	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// neverTypes are the types of login methods that wait for others than us.
var neverTypes = map[string]*coded.Error{TypeInstagram: effect.NoInstagram, TypeIDIN: effect.NoIDIN}

// refuseIneffective refuses a member that does nothing yet and differs from its default. A login method is judged once
// it is enabled; those of the Caddyfile are never judged.
func (u *Units) refuseIneffective() (err error) {
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
			if e.Does != "" || err != nil {
				return
			}
			differs := !isEmpty(v)
			if s, ok := standard[p.path]; ok && !p.entry {
				differs = !bytes.Equal(s, encode(v.Interface()))
			}
			if differs {
				err = refusal(p.at, e.Later)
			}
		})
	}
	return err
}

// judgedMethods empties the methods that are not judged, so the indexes stay those of the body.
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
