package routetree

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
)

// stores are handlers that answer with what they have kept of another request.
var stores = []string{"cache", "souin"}

// late are handlers that look at placeholders when the answer is written, or whenever someone asks for theirs.
var late = []string{"map", "log_append", "intercept"}

// matcherKind is the kind of a step that stands for the matchers of a route.
const matcherKind = "a matcher"

// ourPlaceholders begin with this. They are empty before protect has let the request in.
var ourPlaceholders = []byte("http.auth.user.")

// early notes the handlers and matchers in front of a protect that take no account of it.
func (w *walk) early(protect *step, before []*step) {
	warn := func(reason, fix string) {
		f := diagnostic.Finding{Severity: diagnostic.Warning, Place: protect.place, Reason: reason, Fix: fix}
		if !slices.Contains(w.found, f) {
			w.found = append(w.found, f)
		}
	}
	for _, s := range before {
		directive := s.kind
		if directive == "headers" {
			directive = "header"
		}
		order := "write `order " + directive + " after protect` into the global options, or put both into a `route`, protect first"
		if s.kind == matcherKind {
			order = "let `protect` decide, by a rule with `match` and `need`, or put what it selects into a `route` behind protect"
		}
		switch {
		case slices.Contains(stores, s.kind):
			warn("protect: "+directive+
				" stands before it, and answers from its store without asking: what one person was shown, others are shown too", order)
		case !slices.Contains(late, s.kind) && bytes.Contains(s.text(), ourPlaceholders):
			warn("protect: "+directive+" stands before it, where the placeholders {http.auth.user.*} are still empty", order)
		}
	}
}

// identity are words in the key of a store that tells people apart: the headers that protect sets by default, and its
// placeholders.
var identity = [][]byte{[]byte("remote-user"), []byte("remote-email"), ourPlaceholders}

// keeps notes a store behind a protect that answers one person with what another one was shown. What the site says of
// shared caches is added to the answer behind it, where the store does not see it.
func (w *walk) keeps(s *step, guardedAt string) {
	if !slices.Contains(stores, s.kind) {
		return
	}
	text := bytes.ToLower(s.text())
	if slices.ContainsFunc(identity, func(word []byte) bool { return bytes.Contains(text, word) }) {
		return
	}
	f := diagnostic.Finding{
		Severity: diagnostic.Warning, Place: guardedAt,
		Reason: "protect: " + s.kind + " stands behind it, and its key does not name the person: unless the upstream says private, what one person was shown, others are shown too",
		Fix:    "write `key { headers Remote-User }` into " + s.kind + ", a line each, or use it on public paths alone",
	}
	if !slices.Contains(w.found, f) {
		w.found = append(w.found, f)
	}
}

// text is the configuration of a handler, as far as it is looked at before the request goes on.
func (s *step) text() (raw []byte) {
	if raw = s.unknown; s.module != nil {
		defer func() {
			if recover() != nil { // a module of others that is not fit to be written once it is provisioned
				raw = nil
			}
		}()
		var err error
		if raw, err = json.Marshal(s.module); err != nil {
			return nil
		}
	}
	if s.kind != "headers" {
		return raw
	}
	var h struct {
		Request  json.RawMessage `json:"request"`
		Response struct {
			Deferred bool            `json:"deferred"`
			Require  json.RawMessage `json:"require"`
		} `json:"response"`
	}
	if json.Unmarshal(raw, &h) == nil && (h.Response.Deferred || len(h.Response.Require) > 0) {
		return h.Request
	}
	return raw
}
