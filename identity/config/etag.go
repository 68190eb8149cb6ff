package config

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/rest"
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

// etag returns the entity tag of the view. (RFC 9110 8.8.3)
func (v view) etag(st *state) string {
	body, rev := v(st)
	sum := sha256.Sum256(append(encode(body), strconv.FormatUint(rev, 10)...))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
}

// ifMatch returns a function that compares a state with the If-Match header of a request, or nil without one. Weak tags
// match nothing. (RFC 9110 13.1.1)
func ifMatch(r *http.Request, v view) func(*state) bool {
	header := r.Header.Values("If-Match")
	if len(header) == 0 {
		return nil
	}
	return func(st *state) bool {
		if len(header) == 1 && strings.TrimSpace(header[0]) == "*" {
			return true
		}
		return names(header, v.etag(st))
	}
}

// names tells whether a tag is in a list of tags.
func names(header []string, tag string) bool {
	for _, line := range header {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(one) == tag {
				return true
			}
		}
	}
	return false
}

// answer writes a view of a state, or 304 when the client has it already.
func answer(w http.ResponseWriter, r *http.Request, st *state, v view) error {
	body, _ := v(st)
	return answerTagged(w, r, v.etag(st), body)
}

// answerTagged: RFC 9110 13.1.2.
func answerTagged(w http.ResponseWriter, r *http.Request, tag string, body any) error {
	w.Header().Set("ETag", tag)
	header := strings.ReplaceAll(strings.Join(r.Header.Values("If-None-Match"), ","), "W/", "")
	if strings.TrimSpace(header) == "*" || names([]string{header}, tag) {
		rest.Empty(w, http.StatusNotModified)
		return nil
	}
	rest.JSON(w, http.StatusOK, body)
	return nil
}
