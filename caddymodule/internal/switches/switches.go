// Package switches reads the options of the Caddyfile block identity that stand for a switch of the settings, such as
// sign_up on. The switches are listed in internal/alias.
package switches

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/alias"
)

// Switches are words of the Caddyfile with on, off or a placeholder.
type Switches map[string]string

var checkValue = caddyfileutil.OneOf("on", "off")

// Subdirectives returns the words, which write to s.
func (s *Switches) Subdirectives() caddyfileutil.Subdirectives {
	out := caddyfileutil.Subdirectives{}
	for _, a := range alias.Words {
		out[a.Name] = func(d *caddyfile.Dispenser) error {
			var value string
			if err := caddyfileutil.ReadValue(d, &value, checkValue); err != nil {
				return err
			}
			if *s == nil {
				*s = Switches{}
			}
			(*s)[a.Name] = value
			return nil
		}
	}
	return out
}

// Resolve returns the values of the switches by their paths.
func (s Switches) Resolve(r *caddyfileutil.Resolver) map[string]bool {
	out := map[string]bool{}
	var names []string
	for _, a := range alias.Words {
		names = append(names, a.Name)
		value, ok := r.Text("identity: "+a.Name, s[a.Name], checkValue)
		if !ok {
			continue
		}
		for _, path := range a.Paths {
			out[path] = value == "on"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s)) { // of JSON: the Caddyfile has none
		switch text := reference.Identity.Instead[name]; {
		case slices.Contains(names, name) && s[name] == "":
			r.Fail("identity: %s: want on or off", name)
		case slices.Contains(names, name):
		case text != "":
			r.Fail("identity: switches: %s %s", name, text)
		default:
			r.Fail("identity: switches: unknown switch %q, %s", name, caddyfileutil.DidYouMean(name, names, "known are: "+strings.Join(names, ", ")))
		}
	}
	return out
}

// Option returns the option of a Caddyfile that sets a switch, or otherwise.
func (s Switches) Option(path, otherwise string) string {
	for _, a := range alias.Words {
		if s[a.Name] != "" && slices.Contains(a.Paths, path) {
			return "identity: " + a.Name
		}
	}
	return otherwise
}
