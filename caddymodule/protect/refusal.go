package protect

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/pace"
)

// maxDrain is how many bytes of a refused request's body the server reads, so that the connection can be used again.
const maxDrain = 256 << 10

// refusal is an answer that keeps a request from the upstream.
type refusal struct {
	status     int
	code, text string // error and error_description
	challenge  string // parameters of WWW-Authenticate after the realm; set for 401
	page       string // message of the page that browsers get
	again      string // same-origin link of the page
	cause      error  // for the log
}

func malformed(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "invalid_request", text: text, page: "error.bad_request"}
}

// cannotTell refuses a request whose credential could not be looked up.
func cannotTell(cause error) refusal {
	return refusal{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", text: "try again later", page: "error.unavailable", cause: cause}
}

// refusalOf returns the refusal for a verdict.
func (p *Protect) refusalOf(v verdict) refusal {
	scope := ""
	if len(p.Scopes) > 0 {
		scope = `, scope="` + strings.Join(p.Scopes, " ") + `"`
	}
	switch v {
	case noCredentials:
		// RFC 6750 3.1: a request without any credentials gets no error code in the challenge
		return refusal{status: http.StatusUnauthorized, code: "unauthorized", text: "a bearer token is required", challenge: scope, page: "error.denied"}
	case elsewhere:
		return refusal{
			status: http.StatusUnauthorized, code: "invalid_token", text: "the token is meant for another resource",
			challenge: errorParams("invalid_token", "the token is meant for another resource") + scope, page: "error.denied",
		}
	case tooLow, tooOld:
		// RFC 9470 3
		const code, text = "insufficient_user_authentication", "a different authentication level is required"
		params := errorParams(code, text) + scope
		if p.level > 0 {
			params += `, acr_values="urn:gatehouse:level:` + strconv.Itoa(p.level) + `"`
		}
		if v == tooOld {
			params += `, max_age=` + strconv.Itoa(int(p.session.Seconds()))
		}
		return refusal{status: http.StatusUnauthorized, code: code, text: text, challenge: params, page: "error.denied"}
	case scopeMissing:
		const code, text = "insufficient_scope", "the token lacks a scope that is required here"
		return refusal{status: http.StatusForbidden, code: code, text: text, challenge: errorParams(code, text) + scope, page: "error.denied"}
	case notInGroup:
		const code, text = "access_denied", "the account may not open this"
		return refusal{status: http.StatusForbidden, code: code, text: text, challenge: errorParams(code, text), page: "error.denied"}
	}
	const code, text = "invalid_token", "the token is expired, revoked or unknown"
	return refusal{status: http.StatusUnauthorized, code: code, text: text, challenge: errorParams(code, text) + scope, page: "error.denied"}
}

func errorParams(code, text string) string {
	return `, error="` + code + `", error_description="` + text + `"`
}

// turnAway answers a request that must not pass. A browser is sent to sign in, or to sign in at a higher level, if that
// can help.
func (p *Protect) turnAway(g *passage, rec *arrival, auth authority, v verdict) bool {
	if g.site != nil && slices.Contains([]verdict{noCredentials, inactive, tooOld, tooLow}, v) && isNavigation(g.r) {
		return p.signIn(g, rec, auth, g.site.origin+requestURI(g.r))
	}
	return p.answer(g, p.refusalOf(v))
}

// answer writes a refusal, logs it and returns false. Browsers that open a page get one.
func (p *Protect) answer(g *passage, f refusal) bool {
	w, r := g.ResponseWriter, g.r
	h := w.Header()
	if f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests {
		pace.RetryAfter(w, pace.Soon)
	}
	switch {
	case f.status == http.StatusUnauthorized, f.challenge != "":
		h.Set("WWW-Authenticate", p.realm+f.challenge) // RFC 6750 3
	case f.status == http.StatusMethodNotAllowed:
		h.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	}
	if g.upgrade || (r.ProtoMajor == 1 && (r.ContentLength < 0 || r.ContentLength > maxDrain)) {
		// RFC 9931: bytes sent ahead in the hope of an upgrade are not a request. And a body of unknown length is not
		// read to its end.
		h.Set("Connection", "close")
	}
	ref := ""
	if p.Login && f.page != "" && isNavigation(r) {
		ref = p.page(g, f)
	} else {
		writeRefusal(w, r, f)
	}
	level := zap.InfoLevel
	if f.status >= http.StatusInternalServerError {
		level = zap.ErrorLevel
	}
	if c := p.log.Check(level, "request refused"); c != nil {
		c.Write(zap.Int("status", f.status), zap.String("error", f.code), zap.String("reason", f.text), zap.String("client_ip", p.origin(r).ClientIP),
			zap.String("ref", ref), zap.NamedError("cause", f.cause))
	}
	return false
}

func writeRefusal(w http.ResponseWriter, r *http.Request, f refusal) {
	body, err := json.Marshal(struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}{f.code, f.text})
	if err != nil {
		body = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json;charset=UTF-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		w.Write(body) //nolint:errcheck // the client went away
	}
}
