package authz

import (
	"cmp"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/dcr"
	"github.com/gatehouse-id/gatehouse/authz/device"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// oidcMetadataPath is the path of the metadata of OpenID providers.
const oidcMetadataPath = "/.well-known/openid-configuration"

// route is one line of the table below.
type route struct {
	handle func(http.ResponseWriter, *http.Request) error // an error is written by the kind's writer
	// methods in the order of the Allow header. HEAD is only answered where it is named, and changes nothing there.
	methods []string
	// machine: errors are JSON; otherwise pages.
	machine bool
	// cors: scripts of the clients' own origins can call it; public: those of every origin.
	cors, public bool
	// plain: called often, and refused without more ado than it takes to write the answer.
	plain bool
	// page is the message for people who open the address of a machine in a browser. Empty: a general one.
	page string
}

// table is every route of the package. (token server document, "Endpoints" and "Versioning")
func (s *Server) table() map[string]route {
	var (
		get  = []string{http.MethodGet, http.MethodHead}
		view = []string{http.MethodGet} // pages that change something do not answer HEAD
		post = []string{http.MethodPost}
		both = []string{http.MethodGet, http.MethodPost}
		all  = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	)
	t := map[string]route{
		"/oauth/api/v2/token/introspect": {
			handle: s.grants.HandleIntrospect, methods: post, machine: true, plain: true,
			page: "error.introspection",
		},
		"/oauth/api/v1/users/": {handle: s.handleUsers, methods: []string{http.MethodGet, http.MethodDelete}, machine: true},
		"/oauth/userinfo":      {handle: s.handleUserinfo, methods: all, machine: true, cors: true, page: "error.userinfo"},
		"/oauth/jwks":          {handle: s.handleJWKS, methods: get, machine: true, public: true},
		"/oauth/logout":        {handle: s.handleLogout, methods: both},
		"/oauth/consent":       {handle: s.handleConsent, methods: post},
		"/oauth/site":          {handle: s.handleSite, methods: view},
		"/device":              {handle: s.devices.HandleEnter, methods: both},
		"/device/allow":        {handle: s.devices.HandleAllow, methods: both},
		oidcMetadataPath:       {handle: s.handleMetadata, methods: get, machine: true, public: true},
		"/.well-known/oauth-authorization-server": {handle: s.handleMetadata, methods: get, machine: true, public: true},
	}
	if s.registered.On() {
		t[dcr.Path] = route{handle: s.registered.Handle, methods: s.registered.Methods(), machine: true, public: true}
	}
	for _, version := range []string{"/oauth", "/oauth/v1"} {
		t[version+"/authorize"] = route{handle: s.handleAuthorize, methods: all}
		t[version+"/token"] = route{handle: s.grants.HandleToken, methods: post, machine: true, cors: true, page: "error.token"}
		t[version+"/par"] = route{handle: s.pushed.Handle, methods: post, machine: true, cors: true}
		t[version+"/device_authorization"] = route{handle: s.devices.HandleBegin, methods: post, machine: true, cors: true}
		t[version+"/device_authorization/approve"] = route{handle: s.devices.HandleApprove, methods: post, machine: true, cors: true}
		t[version+"/revoke"] = route{handle: s.grants.HandleRevoke, methods: post, machine: true, cors: true, page: "error.revocation"}
	}
	if s.signals.On() {
		t[ssf.MetadataPath] = route{handle: s.handleSignalMetadata, methods: get, machine: true, public: true}
		t[ssf.StreamPath] = route{
			handle:  s.signals.HandleStream,
			methods: []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}, machine: true,
		}
		t[ssf.StatusPath] = route{handle: s.signals.HandleStatus, methods: both, machine: true}
		t[ssf.AddPath] = route{handle: s.signals.HandleAdd, methods: post, machine: true}
		t[ssf.RemovePath] = route{handle: s.signals.HandleRemove, methods: post, machine: true}
		t[ssf.VerifyPath] = route{handle: s.signals.HandleVerify, methods: post, machine: true}
		t[ssf.PollPath] = route{handle: s.signals.HandlePoll, methods: post, machine: true}
	}
	return t
}

// Paths are the prefixes of what the server answers.
func (s *Server) Paths() []string {
	paths := []string{"/oauth/", device.EnterPath, oidcMetadataPath, "/.well-known/oauth-authorization-server"}
	if s.signals.On() {
		paths = append(paths, "/ssf/", ssf.MetadataPath)
	}
	return paths
}

// routes answers the table. A path is compared as it is: without cleaning or redirect, so //oauth/token and the like
// are 404.
func (s *Server) routes() http.Handler {
	table := s.table()
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w := &web.Begun{ResponseWriter: out}
		rt, found := table[r.URL.Path]
		if strings.HasPrefix(r.URL.Path, usersPath) {
			rt, found = table[usersPath], true // the only path with variable parts
		}
		if !found {
			s.deps.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
			return
		}
		if !rt.plain {
			r = s.deps.Refusals.Begin(w, r, s.deps.Origin(r).ClientIP, denial.Refusal{Where: denial.OAuth})
		}
		defer s.recovered(w, r, rt)
		if (rt.cors || rt.public) && s.cors(w, r, rt) {
			return
		}
		if !slices.Contains(rt.methods, r.Method) {
			w.Header().Set("Allow", strings.Join(rt.methods, ", ")) // RFC 9110 15.5.6
			s.refuse(w, r, rt, &oauth.Error{Status: http.StatusMethodNotAllowed, Code: "invalid_request", Description: "method is not allowed"})
			return
		}
		if err := rt.handle(w, r); err != nil {
			s.refuse(w, r, rt, err)
		}
	})
}

// opensPage reports whether a person has opened an address in a browser, rather than a program. Programs that name
// text/html without meaning it, as some libraries do, send credentials or a form.
func opensPage(r *http.Request) bool {
	if (r.Method != http.MethodGet && r.Method != http.MethodHead) || len(r.Header["Authorization"]) > 0 {
		return false
	}
	return web.OpensPage(r)
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, rt route, err error) {
	if rt.machine && opensPage(r) {
		if c := oauth.AsError(err).Challenge; c != "" {
			w.Header().Set("WWW-Authenticate", c)
		}
		s.failPage(w, r, err, cmp.Or(rt.page, "error.machine"), "")
		return
	}
	if rt.machine {
		s.fail(w, r, err)
		return
	}
	key := "error.bad_request"
	switch oauth.AsError(err).Status {
	case http.StatusForbidden:
		key = "error.forbidden"
	case http.StatusMethodNotAllowed:
		key = "error.method"
	}
	s.failPage(w, r, err, key, "")
}

// recovered turns a panic into a 500 with a reference, or aborts an answer that has begun, and counts it: a count above
// zero is a defect.
func (s *Server) recovered(w *web.Begun, r *http.Request, rt route) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler { //nolint:errorlint // the value itself, as net/http compares it
		panic(cause)
	}
	s.panics.Add(1)
	reference := s.record(r, &oauth.Error{Status: http.StatusInternalServerError, Code: "server_error", Description: "internal error"})
	s.deps.Log.Error("panic", zap.String("path", r.URL.Path), zap.String("ref", reference), zap.Any("panic", cause),
		zap.ByteString("stack", debug.Stack()))
	w.AbortBegun()
	if rt.machine {
		jsonresponse.Write(w, http.StatusInternalServerError, jsonresponse.Error{
			Error: grant.ErrorCode(r, "server_error"), Description: "internal error, reference " + reference, Ref: reference,
		})
	} else {
		s.deps.Pages.Fail(w, r, http.StatusInternalServerError, web.Failure{Key: "error.internal", Ref: reference})
	}
}

// Panics returns the number of requests that have ended in a panic since the server was made.
func (s *Server) Panics() int64 { return s.panics.Load() }
