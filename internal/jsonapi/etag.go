package jsonapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Tag returns the entity tag of what a GET answers. more changes along with what the answer hides, such as secrets.
// (RFC 9110 8.8.3)
func Tag(v any, more uint64) string {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // a programming error, as in JSON
	}
	sum := sha256.Sum256(append(body, strconv.FormatUint(more, 10)...))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
}

// Precondition returns a function that reports whether a request may change what has a tag now, by its If-Match and
// If-None-Match. nil: the request has neither. Weak tags match nothing in If-Match. (RFC 9110 13.1.1, 13.1.2, 13.2.2)
func Precondition(r *http.Request) func(tag string) bool {
	match, none := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	if len(match)+len(none) == 0 {
		return nil
	}
	return func(tag string) bool {
		return (len(match) == 0 || names(match, tag)) && (len(none) == 0 || !names(none, tag) && !names(none, "W/"+tag))
	}
}

// names reports whether a tag is in a list of tags, or the list is *.
func names(header []string, tag string) bool {
	for _, line := range header {
		for one := range strings.SplitSeq(line, ",") {
			if one = strings.TrimSpace(one); one == tag || one == "*" {
				return true
			}
		}
	}
	return false
}

// Tagged answers a GET with its tag, or 304 when the client has it already. (RFC 9110 13.1.2)
func Tagged(w http.ResponseWriter, r *http.Request, tag string, body any) {
	w.Header().Set("ETag", tag)
	if none := r.Header.Values("If-None-Match"); names(none, tag) || names(none, "W/"+tag) {
		Empty(w, http.StatusNotModified)
		return
	}
	JSON(w, http.StatusOK, body)
}
