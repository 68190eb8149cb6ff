package settings

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// A view returns the part of a state that one operation reads. rev changes along with the hidden members of that part,
// such as secrets; it is 0 if there are none.
type view func(st *state) (v any, rev uint64)

// unitView is a whole unit.
func unitView(un unit) view {
	return func(st *state) (any, uint64) {
		var rev uint64
		if un.name == "login_methods" {
			rev = st.revisions[un.name]
		}
		return un.of(st.units), rev
	}
}

// etag returns the entity tag of the view.
func (v view) etag(st *state) string { return jsonapi.Tag(v(st)) }

// version is the entity tag without its quotes.
func (v view) version(st *state) string { return strings.Trim(v.etag(st), `"`) }

// ifMatch returns a function that reports whether a state is one that the request may change, or nil if the request
// does not say.
func ifMatch(r *http.Request, v view) func(*state) bool {
	holds := jsonapi.Precondition(r)
	if holds == nil {
		return nil
	}
	return func(st *state) bool { return holds(v.etag(st)) }
}

// writeView writes a view of a state, or 304 when the client has it already.
func writeView(w http.ResponseWriter, r *http.Request, st *state, v view) error {
	body, _ := v(st)
	jsonapi.Tagged(w, r, v.etag(st), body)
	return nil
}
