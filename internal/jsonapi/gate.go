package jsonapi

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// challenge is the WWW-Authenticate header of a 401. (RFC 7617 2)
const challenge = `Basic realm="gatehouse", charset="UTF-8"`

// Gate authenticates API clients. Its fields are set once; Authorize and Log are required.
type Gate struct {
	// Authorize returns the id of the API client whose Basic credentials the request carries and that may use the API;
	// or authn.ErrNoCredentials, or authn.ErrNotAllowed. Any other error means that it cannot tell.
	Authorize func(r *http.Request, api string) (client string, err error)
	// Secure reports whether the request came by https, or from this machine, according to trusted proxies. Default:
	// according to the connection.
	Secure func(r *http.Request) bool
	// Partitioned says that persons are kept in partitions, and Partitions which of them an API client is limited to.
	// No partitions, or no function: all.
	Partitioned bool
	Partitions  func(client string) []string
	// Has reports whether an API client can use an API. nil: none can use more than the one that it is authenticated
	// for
	Has func(client, api string) bool
	// Refusals keeps why someone was refused. nil: they are logged alone.
	Refusals *denial.Recorder
	Log      *zap.Logger
	Issuer   string // no trailing slash
}

// Handler serves one operation of an authenticated API client. Its error is written by Fail.
type Handler func(w http.ResponseWriter, r *http.Request, client string) error

// Route is one operation of an API.
type Route struct {
	Method string
	Path   string // names in braces are one segment each
	Serve  Handler
}

// Enter authenticates the API client of a request, before anything else is read, and applies the rules that protect
// credentials. When ok is false the answer has been written.
func (g *Gate) Enter(w http.ResponseWriter, r *http.Request, api string) (client string, ok bool) {
	client, err := g.Authorize(r, api)
	if err == nil {
		err = g.refuse(r)
	}
	switch {
	case err == nil:
		denial.Learn(r.Context(), func(f *denial.Refusal) { f.ClientID = client })
		return client, true
	case errors.Is(err, authn.ErrNoCredentials):
		w.Header().Set("WWW-Authenticate", challenge)
		reason := denial.ReasonOf(err, denial.NoCredentials)
		err = (&Error{Status: http.StatusUnauthorized, Message: "authentication is required", Reason: reason}).With(err)
	case errors.Is(err, authn.ErrNotAllowed):
		err = (&Error{Status: http.StatusForbidden, Message: "the API client may not use this API"}).With(err)
	case !errors.As(err, new(*Error)):
		err = (&Error{Status: http.StatusServiceUnavailable, Message: "try again later"}).With(err)
	}
	g.Fail(w, r, err)
	return "", false
}

// Admit is Enter for an API that writes its refusals itself. It returns authn.ErrNoCredentials, authn.ErrNotAllowed or
// an *Error; any other error means that it cannot tell.
func (g *Gate) Admit(r *http.Request, api string) (client string, err error) {
	if client, err = g.Authorize(r, api); err == nil {
		err = g.Check(r)
	}
	return client, err
}

// Check applies the rules that protect credentials of any kind to an authenticated request. The error is an *Error.
func (g *Gate) Check(r *http.Request) error { return g.refuse(r) }

// refuse refuses credentials in clear text, and requests that another site makes with the stored credentials of a
// browser.
func (g *Gate) refuse(r *http.Request) error {
	secure := Secure(r)
	if g.Secure != nil {
		secure = g.Secure(r)
	}
	if !secure && strings.HasPrefix(g.Issuer, "https://") {
		return &Error{Status: http.StatusForbidden, Message: "this API is served over https only", Reason: denial.Insecure}
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return &Error{Status: http.StatusForbidden, Message: "requests of other sites are refused", Reason: denial.OtherOrigin}
	}
	if origin := r.Header.Values("Origin"); len(origin) > 0 && (len(origin) > 1 || origin[0] != g.Issuer) {
		return &Error{Status: http.StatusForbidden, Message: "requests of other origins are refused", Reason: denial.OtherOrigin}
	}
	return nil
}

// Secure reports whether a connection uses https or comes from this machine.
func Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return loopback.Is(host)
}

// Methods serves the operations of one path by their methods: authentication first, then on (which refuses while the
// API is switched off, and may be nil), then the method. GET serves HEAD too; other methods are 405 with Allow. (RFC
// 9110 9.3.2, 15.5.6)
func (g *Gate) Methods(api string, on func(*http.Request) error, operations map[string]Handler) http.Handler {
	var allow []string
	for m := range operations {
		allow = append(allow, m)
		if m == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = g.Refusals.Begin(w, r, "", denial.Refusal{Where: denial.API})
		client, ok := g.Enter(w, r, api)
		if !ok {
			return
		}
		if on != nil {
			if err := on(r); err != nil {
				g.Fail(w, r, err)
				return
			}
		}
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		serve, known := operations[method]
		if !known {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			g.Fail(w, r, &Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed"})
			return
		}
		if err := serve(w, r, client); err != nil {
			g.Fail(w, r, err)
		}
	})
}
