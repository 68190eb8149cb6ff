package idp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	// enoughSignIns is the number of sign-ins after which an attribute that none of them had is probably misspelled.
	enoughSignIns = 20
	// maxNames bounds the names of attributes that are remembered for a warning.
	maxNames = 12
)

// Watcher is a Provider that notices which mapped attributes do not come.
type Watcher interface {
	Unseen() []Warning
}

// WatchedMapping is a Mapping that remembers the names of attributes that have come from a provider since it was made.
type WatchedMapping struct {
	mapping Mapping

	mu      sync.Mutex // guards all below
	signIns int
	mapped  map[string]bool // those that the mapping names, and whether they have come
	others  map[string]bool // names, never values
}

// Watch returns a mapping that notices what does not come.
func Watch(m Mapping) *WatchedMapping {
	return &WatchedMapping{mapping: m, mapped: map[string]bool{}, others: map[string]bool{}}
}

// Apply returns the details of a sign-in as Mapping.Apply does. An attribute whose values are nil has not come.
func (w *WatchedMapping) Apply(raw map[string][]string) map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signIns++
	for _, a := range w.mapping.Attributes {
		w.mapped[a.From] = w.mapped[a.From] || raw[a.From] != nil
	}
	for name, values := range raw {
		if _, named := w.mapped[name]; !named && values != nil && len(w.others) < maxNames && isName(name) {
			w.others[name] = true
		}
	}
	return w.mapping.Apply(raw)
}

// Unseen returns a warning for each detail for which no attribute has come in many sign-ins.
func (w *WatchedMapping) Unseen() (out []Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signIns < enoughSignIns {
		return nil
	}
	advice := "write the name as the provider does, or remove the line"
	if others := slices.Sorted(maps.Keys(w.others)); len(others) > 0 {
		advice += "; other attributes that have come: " + strings.Join(others, ", ")
	}
	come := map[string]bool{} // details
	for _, a := range w.mapping.Attributes {
		come[a.To] = come[a.To] || w.mapped[a.From]
	}
	for _, a := range w.mapping.Attributes {
		if !come[a.To] {
			out = append(out, Warning{
				Reason: fmt.Sprintf("map %s %s: the attribute has come in none of %d sign-ins", a.From, a.To, w.signIns), Advice: advice,
			})
		}
	}
	return out
}
