// Package diagnostic represents findings about a configuration that will cause trouble later. `caddy validate`, the
// start and `caddy gatehouse check` report the same ones. Each is found by the package that it is about.
package diagnostic

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Severity says whether a configuration with the finding is refused.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the configuration is refused
	Warning Severity = "warning" // it is logged, and shown by check
)

// Finding is one thing that is wrong, where, and what to do.
type Finding struct {
	Severity Severity `json:"severity"`
	// Place is file:line of the Caddyfile. Empty: the configuration is JSON, or the finding is about the machine.
	Place  string `json:"place,omitempty"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
	// About is the subject of the finding in the words of options, such as client wiki: scopes or site
	// wiki.example.com. It leads the console to where it is fixed. Empty: unknown
	About string `json:"-"`
}

// String is the finding in one line.
func (f Finding) String() string {
	s := f.Reason
	if f.Fix != "" {
		s += ": " + f.Fix
	}
	if f.Place != "" {
		s += ", at " + f.Place
	}
	return s
}

// Same reports whether two findings say the same about the same place. About is not compared: it is not in JSON, so one
// of the running server has lost it.
func (f Finding) Same(o Finding) bool {
	f.About, o.About = "", ""
	return f == o
}

// List collects findings. Several goroutines can use it.
type List struct {
	mu  sync.Mutex // guards all
	all []Finding
}

// Add adds a finding that is not there yet. new is false for one that is.
func (l *List) Add(f Finding) (added bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.all, f.Same) {
		return false
	}
	l.all = append(l.all, f)
	return true
}

// All returns the findings, errors first, then in the order of the Caddyfile, those without a place at the end: Caddy
// provisions its apps in random order.
func (l *List) All() []Finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.all)
	slices.SortStableFunc(out, func(a, b Finding) int {
		fileA, lineA := a.at()
		fileB, lineB := b.at()
		return cmp.Or(strings.Compare(string(a.Severity), string(b.Severity)), strings.Compare(fileA, fileB), cmp.Compare(lineA, lineB),
			strings.Compare(a.Reason, b.Reason))
	})
	return out
}

// at returns the file and the line of the place.
func (f Finding) at() (file string, line int) {
	i := strings.LastIndexByte(f.Place, ':')
	if i < 0 {
		return "\xff", 0
	}
	line, _ = strconv.Atoi(f.Place[i+1:])
	return f.Place[:i], line
}

// Err returns the errors among the findings as one, or nil.
func (l *List) Err() error {
	var texts []string
	for _, f := range l.All() {
		if f.Severity == Error {
			texts = append(texts, f.String())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

var (
	collecting sync.Mutex // held by Collect
	sinkMu     sync.Mutex // guards sink
	sink       *List
)

// Collect returns what configurations report while fn provisions them, and the error of fn. It is for a command, whose
// process has no other configuration: Caddy gives no access to the modules of a configuration that it validates.
func Collect(fn func() error) ([]Finding, error) {
	collecting.Lock()
	defer collecting.Unlock()
	list := new(List)
	set := func(l *List) {
		sinkMu.Lock()
		defer sinkMu.Unlock()
		sink = l
	}
	set(list)
	defer set(nil)
	err := fn()
	return list.All(), err
}

// Report hands a finding to Collect, if that is waiting.
func Report(f Finding) {
	sinkMu.Lock()
	defer sinkMu.Unlock()
	if sink != nil {
		sink.Add(f)
	}
}
