package oauth

import (
	"net/http"
	"strings"
)

// Bearer returns the token of a request that has one Authorization header, of the scheme Bearer (RFC 6750 2.1). It can
// be empty.
func Bearer(r *http.Request) (token string, ok bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimLeft(token, " "), true
}
