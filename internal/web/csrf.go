package web

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// maxForm is the largest form body in bytes that a page takes.
const maxForm = 64 << 10

const nonceBytes = 12

// Forbidden says why a POST is not from one of our pages in this browser. Status is 403, 400, 405 or 413. Reason is for
// the log and contains nothing of the request.
type Forbidden struct {
	Status int
	Reason string
}

func (f *Forbidden) Error() string { return "page: " + f.Reason }

// CSRF returns the token of a form, bound to the value of the browser cookie and to the purpose of the form (such as
// the id of its flow). It differs each time, so compression cannot reveal it. Without a binding it is "", and the form
// is refused.
func (p *Renderer) CSRF(binding, form string) string {
	nonce := make([]byte, nonceBytes)
	if _, err := io.ReadFull(p.cfg.Random, nonce); err != nil || binding == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(nonce, secret.MAC(p.cfg.Key, "csrf", string(nonce), binding, form)...))
}

// IsCSRF reports whether a token is one that CSRF has returned for this binding and form.
func (p *Renderer) IsCSRF(token, binding, form string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= nonceBytes || binding == "" {
		return false
	}
	return hmac.Equal(raw[nonceBytes:], secret.MAC(p.cfg.Key, "csrf", string(raw[:nonceBytes]), binding, form))
}

// CheckPost returns nil if r is a POST of this form from one of our pages in the browser of this binding, and fills
// r.PostForm from the body alone. Otherwise it returns a *Forbidden, which Refuse answers.
func (p *Renderer) CheckPost(r *http.Request, binding, form string) error {
	if r.Method != http.MethodPost {
		return &Forbidden{http.StatusMethodNotAllowed, "not a POST"}
	}
	if err := p.checkOrigin(r); err != nil {
		return err
	}
	if err := readForm(r); err != nil {
		return err
	}
	if token := r.PostForm["csrf"]; len(token) != 1 || !p.IsCSRF(token[0], binding, form) {
		return &Forbidden{http.StatusForbidden, "the form is not of this browser and page"}
	}
	return nil
}

// FromHere reports whether the browser says that one of our pages has led to a request: a navigation or a form, no
// picture, frame, script or prefetch. A redirect on the way does not make another site's link ours. (Fetch Metadata)
func FromHere(r *http.Request) bool {
	for name, want := range map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} {
		if v := r.Header.Values(name); len(v) != 1 || v[0] != want {
			return false
		}
	}
	return r.Header.Get("Sec-Purpose") == "" && r.Header.Get("Purpose") == ""
}

// OpensPage reports whether a person sees the answer to a request as a page: a navigation, or a form that is sent.
func OpensPage(r *http.Request) bool {
	if mode := r.Header["Sec-Fetch-Mode"]; len(mode) > 0 {
		return len(mode) == 1 && mode[0] == "navigate"
	}
	if len(r.Header["Sec-Fetch-Site"]) > 0 || len(r.Header["Sec-Fetch-Dest"]) > 0 {
		return false
	}
	return slices.ContainsFunc(r.Header["Accept"], func(v string) bool { return strings.Contains(v, "text/html") })
}

// sameOrigin decides what Sec-Fetch-Site means. It has no trusted origins.
var sameOrigin http.CrossOriginProtection

// checkOrigin: Sec-Fetch-Site decides if the browser sends it, otherwise Origin must be the issuer's. The second half
// is stricter than net/http, which accepts a request with neither header, and compares the host alone.
func (p *Renderer) checkOrigin(r *http.Request) error {
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) > 0 {
		if len(site) > 1 || site[0] == "" || sameOrigin.Check(r) != nil {
			return &Forbidden{http.StatusForbidden, "the form was sent from another site"}
		}
		return nil
	}
	if origin := r.Header.Values("Origin"); len(origin) != 1 || !strings.EqualFold(origin[0], p.origin) {
		return &Forbidden{http.StatusForbidden, "the form was sent from another origin"}
	}
	return nil
}

// readForm reads the body as a form of one charset, bounded, each field once.
func readForm(r *http.Request) error {
	if r.PostForm != nil {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, hasCharset := params["charset"]
	if err != nil || kind != "application/x-www-form-urlencoded" || (hasCharset && !strings.EqualFold(charset, "utf-8")) {
		return &Forbidden{http.StatusForbidden, "the form has another content type"}
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxForm))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &Forbidden{http.StatusRequestEntityTooLarge, "the form is too large"}
	}
	if err != nil {
		return &Forbidden{http.StatusBadRequest, "the form did not arrive whole"}
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return &Forbidden{http.StatusBadRequest, "the form is malformed"}
	}
	for name, v := range values {
		if len(v) != 1 || !utf8.ValidString(name) || !utf8.ValidString(v[0]) {
			return &Forbidden{http.StatusBadRequest, "the form repeats a field or is not UTF-8"}
		}
	}
	r.PostForm, r.Form = values, values
	return nil
}

// Refuse writes the error page for what CheckPost returned. again is a same-origin link that starts again, or "".
func (p *Renderer) Refuse(w http.ResponseWriter, r *http.Request, err error, again string) {
	status, key := http.StatusForbidden, "error.forbidden"
	if f := new(Forbidden); errors.As(err, &f) {
		switch status = f.Status; status {
		case http.StatusMethodNotAllowed:
			key = "error.method"
			w.Header().Set("Allow", http.MethodPost)
		case http.StatusForbidden:
		default:
			key = "error.bad_request"
		}
	}
	p.Error(w, r, status, key, again)
}
