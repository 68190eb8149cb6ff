package settings

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gatehouse-id/gatehouse/internal/alias"
)

// A switch is a boolean member outside arrays. One that no one has set is not stored, so it follows what the Caddyfile
// says, mail included. (docs/decisions/configuration.md#defaults-of-the-units)

// withMail are the switches that are on where e-mails can be sent.
var withMail = append([]string{"features.password_reset_enabled"}, alias.SecurityEmails...)

const (
	signUpPath      = "features.sign_up_enabled"
	verifyEmailPath = "attributes.verification.email_enabled"

	// One setting with two names, see settleTwins.
	twin      = "features.externally_delivered_code_step_up.enabled"
	otherTwin = "features.step_up_authentication_method_externally_delivered_code_enabled"
)

// standard returns the units of a system that was never configured, in this installation.
func (c Config) standard() *Units {
	values := map[string]bool{verifyEmailPath: c.Switches[signUpPath]} // no one makes an account of someone's address
	if c.Mail {
		for _, path := range withMail {
			values[path] = true
		}
	}
	maps.Copy(values, c.Switches)
	u := Defaults()
	for _, un := range table {
		u.visitSwitches(un, func(v reflect.Value, path string) {
			if on, ok := values[path]; ok {
				v.SetBool(on)
			}
		})
	}
	return &u
}

// Overruled returns the switches that have another value than the Caddyfile says.
func (s *Service) Overruled(u *Units) (paths []string) {
	for _, un := range table {
		u.visitSwitches(un, func(v reflect.Value, path string) {
			if on, ok := s.cfg.Switches[path]; ok && on != v.Bool() {
				paths = append(paths, path)
			}
		})
	}
	return paths
}

func (u *Units) visitSwitches(un unit, fn func(v reflect.Value, path string)) {
	u.visitMembers(un, func(v reflect.Value, p place) {
		if v.Kind() == reflect.Bool && !p.entry {
			fn(v, p.path)
		}
	})
}

// switches are the paths of the switches by the names of their units.
var switches = sync.OnceValue(func() map[string][]string {
	out, u := map[string][]string{}, Defaults()
	for _, un := range table {
		u.visitSwitches(un, func(_ reflect.Value, path string) { out[un.name] = append(out[un.name], path) })
	}
	return out
})

// chosen are the switches that someone has set.
type chosen map[string]bool

// add adds the switches that stand in the JSON of a unit.
func (c chosen) add(un string, raw []byte) {
	var members any
	if json.Unmarshal(raw, &members) != nil {
		return // reading the unit fails too
	}
	for _, path := range switches()[un] {
		if has(members, strings.Split(path, ".")[1:]) {
			c[path] = true
		}
	}
}

// with returns c and what an edit sets: the switches that were sent and those that have changed, but for those that it
// gives their defaults.
func (c chosen) with(e edit, changed []Change) chosen {
	out := maps.Clone(c)
	for un, raw := range e.sent {
		out.add(un, raw)
	}
	for _, ch := range changed {
		if slices.Contains(switches()[ch.unit], ch.Path) {
			out[ch.Path] = true
		}
	}
	if out[twin] || out[otherTwin] {
		out[twin], out[otherTwin] = true, true
	}
	for _, path := range e.unset {
		delete(out, path)
	}
	for _, un := range e.undone {
		for _, path := range switches()[un] {
			if delete(out, path); e.chosen[path] {
				out[path] = true
			}
		}
	}
	return out
}

// permitted returns c without what the rights do not cover. Whether a switch of sign-in is set decides whether the
// Caddyfile does, so it is up to owners even if the value stays: who sends back what was read sets none, and who resets
// one is refused.
func (c chosen) permitted(rights Rights, before chosen, changed []Change) (chosen, error) {
	if rights != Ordinary {
		return c, nil
	}
	changes := pathsOf(changed)
	for _, paths := range switches() {
		for _, path := range paths {
			switch {
			case c[path] == before[path] || !DecidesSignIn(path) || slices.Contains(changes, path): // permit looks at changes
			case before[path]:
				return nil, refuseOrdinary(path)
			default:
				delete(c, path)
			}
		}
	}
	return c, nil
}

// differs reports whether a switch of a unit is set that was not set before, or the other way around.
func (c chosen) differs(from chosen, un string) bool {
	return slices.ContainsFunc(switches()[un], func(path string) bool { return c[path] != from[path] })
}

// only returns the JSON of a unit without the switches that no one has set.
func (c chosen) only(un string, raw []byte) []byte {
	open := slices.DeleteFunc(slices.Clone(switches()[un]), func(path string) bool { return c[path] })
	if len(open) == 0 {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		panic(err) // it was written a moment ago
	}
	for _, path := range open {
		remove(members, strings.Split(path, ".")[1:])
	}
	return encode(members)
}

func has(members any, path []string) bool {
	object, ok := members.(map[string]any)
	if !ok {
		return false
	}
	below, ok := object[path[0]]
	return ok && (len(path) == 1 || has(below, path[1:]))
}

func remove(members any, path []string) {
	object, ok := members.(map[string]any)
	switch {
	case !ok:
	case len(path) == 1:
		delete(object, path[0])
	default:
		remove(object[path[0]], path[1:])
	}
}
