package caddyfileutil

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Stand-ins take the place of a value with a placeholder while a Caddyfile is adapted, so it does not count as missing.
const (
	StandInSecret = "a-secret-that-is-known-when-the-configuration-is-loaded"
	StandInURI    = "https://placeholder.invalid/"
)

// Resolver turns the texts of a configuration into values. It collects the problems, so one message names them all.
type Resolver struct {
	// repl resolves placeholders. nil while adapting: then a value with a placeholder is skipped.
	repl *caddy.Replacer
	// verbatim takes every value as it is, with its braces.
	verbatim bool
	places   Places
	problems []string
	faults   []Fault
}

// Fault is something outside the configuration that an option names and that cannot be used, such as a file. It is
// not a problem of the configuration: only what needs the option does without, and everything else goes on.
type Fault struct {
	// Option is the option as messages name it.
	Option string
	// Reason says what is wrong and who does without, Fix what to do.
	Reason, Fix string
	// Watched says that the same is found again, or found to be over, while the configuration runs.
	Watched bool
}

// NewResolver returns a resolver for a configuration that is loaded, or with nil for a Caddyfile that is adapted: there
// a value with a placeholder is not known yet.
func NewResolver(repl *caddy.Replacer) *Resolver { return &Resolver{repl: repl} }

// NewResolverAt returns a resolver for a configuration that is loaded. What it reports has the places.
func NewResolverAt(places Places) *Resolver {
	return &Resolver{repl: caddy.NewReplacer(), places: places}
}

// NewVerbatimResolver returns a resolver for the values of a request. It resolves no placeholders: they would read the
// server's own environment and files.
func NewVerbatimResolver() *Resolver { return &Resolver{verbatim: true} }

// Verbatim reports whether values come from a request, whose sender must not read the server's files.
func (r *Resolver) Verbatim() bool { return r.verbatim }

// ProblemCount returns how many problems have been found so far.
func (r *Resolver) ProblemCount() int { return len(r.problems) }

// HasPlaceholder reports whether a value is only known once the configuration is loaded.
func HasPlaceholder(s string) bool { return strings.Contains(s, "{") }

// Adapting reports whether values with placeholders are still unknown.
func (r *Resolver) Adapting() bool { return r.repl == nil && !r.verbatim }

// Fail adds a problem.
func (r *Resolver) Fail(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// Lack adds a fault.
func (r *Resolver) Lack(f Fault) { r.faults = append(r.faults, f) }

// Faults returns the faults that have been found so far.
func (r *Resolver) Faults() []Fault { return r.faults }

// AddError adds an error, if there is one, whose text names its subject.
func (r *Resolver) AddError(err error) {
	if err != nil {
		r.problems = append(r.problems, err.Error())
	}
}

// Text resolves and checks a value. ok is false for a value that is empty, still unknown, or wrong.
func (r *Resolver) Text(option, v string, check func(string) error) (out string, ok bool) {
	if v == "" {
		return "", false
	}
	if HasPlaceholder(v) && !r.verbatim {
		if r.Adapting() {
			return "", false
		}
		resolved, err := r.repl.ReplaceOrErr(v, true, true)
		if err != nil {
			r.Fail("%s: %v: set it, or write the value itself", option, err)
			return "", false
		}
		v = resolved
	}
	if check != nil {
		if err := check(v); err != nil {
			r.Fail("%s: %v", option, err)
			return "", false
		}
	}
	return v, true
}

// Plain is Text for callers that treat an absent value as empty.
func (r *Resolver) Plain(option, v string, check func(string) error) string {
	out, _ := r.Text(option, v, check)
	return out
}

// List resolves and checks several values, and returns the usable ones.
func (r *Resolver) List(option string, vs []string, check func(string) error) []string {
	var out []string
	for _, v := range vs {
		s, ok := r.Text(option, v, check)
		if ok {
			out = append(out, s)
		} else if v == "" {
			r.Fail("%s: a value is empty", option)
		}
	}
	return out
}

// Duration resolves a duration. 0: not set.
func (r *Resolver) Duration(option string, v Duration) time.Duration {
	s, ok := r.Text(option, string(v), CheckDuration)
	if !ok {
		return 0
	}
	d, _ := caddy.ParseDuration(s)
	return d
}

// Count resolves a number. 0: not set.
func (r *Resolver) Count(option string, v Count, check func(string) error) int {
	s, ok := r.Text(option, string(v), check)
	if !ok {
		return 0
	}
	n, _ := ParseCount(s)
	return n
}

// Err returns all problems as one error, or nil.
func (r *Resolver) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	texts := make([]string, len(r.problems))
	for i, text := range r.problems {
		texts[i] = r.places.Locate(errors.New(text)).Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// Adapt checks the options of the module that begins at start, as far as they are known while a Caddyfile is adapted.
func Adapt(start caddyfile.Token, build func(*Resolver)) error {
	r := NewResolver(nil)
	if build(r); r.Err() != nil {
		return At(start, r.Err())
	}
	return nil
}

// Provision resolves and checks the options of a module when the configuration is loaded.
func Provision(build func(*Resolver)) error {
	r := NewResolver(caddy.NewReplacer())
	build(r)
	return r.Err()
}
