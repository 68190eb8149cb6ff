// Package scim serves people and groups by SCIM 2.0 (RFC 7643, RFC 7644) below /scim/v2. It changes them through
// package person, so the same rules apply as on the pages.
package scim

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// prefix begins every path.
const prefix = "/scim/v2"

// Deps are the dependencies of the server. Identity and Authorize are required.
type Deps struct {
	Identity *identity.Service
	Issuer   string // no trailing slash
	// Authorize returns the caller of a request: an API client with persons, or a client whose own token has the scope
	// scim. It returns authn.ErrNoCredentials, authn.ErrNotAllowed or a *jsonapi.Error; any other error means that it
	// cannot tell.
	Authorize func(r *http.Request) (Caller, error)
	// Enabled reports whether the API is switched on. Default: it is.
	Enabled func(ctx context.Context) (bool, error)
	// Refusals keeps why someone was refused. nil: they are logged alone.
	Refusals *denial.Recorder
	Log      *zap.Logger
}

// Caller is the client that sends a request.
type Caller struct {
	audit.Actor

	// Partitions are those that the client is limited to. None: all.
	Partitions []string
	// Vouches says that an address is the person's if the client says so.
	Vouches bool
}

// Server answers the paths of routes.go. It is safe for concurrent use.
type Server struct {
	deps Deps

	mux     http.Handler
	scans   chan struct{} // has room for the requests that read through all persons
	members int           // greatest number in all groups of one list
	cursors cursors
}

// maxScans is the number of requests that read through all persons at once; others wait.
const maxScans = 2

// maxMembers is the maximum number of members in one list of groups: they are in memory until it is written.
const maxMembers = 50_000

// New returns a server.
func New(d Deps) (*Server, error) {
	if d.Identity == nil || d.Authorize == nil {
		return nil, errors.New("scim: Identity and Authorize are required")
	}
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
	s := &Server{deps: d, scans: make(chan struct{}, maxScans), members: maxMembers}
	s.mux = s.routes()
	return s, nil
}

// ServeHTTP authenticates before it looks at anything else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := s.enter(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, q)))
}

// call is the caller of a request and its partition.
type call struct {
	by        audit.Actor
	partition string
	vouches   bool
}

// users is the type of resources that the caller sends for persons.
func (c *call) users() *resourceType {
	if c.vouches {
		return vouchedType
	}
	return userType
}

type callKey struct{}

func callOf(r *http.Request) *call {
	c, _ := r.Context().Value(callKey{}).(*call)
	return c
}

func (s *Server) enter(r *http.Request) (*call, error) {
	by, err := s.deps.Authorize(r)
	if err != nil {
		return nil, err
	}
	if s.deps.Enabled != nil {
		on, err := s.deps.Enabled(r.Context())
		if err != nil {
			return nil, err
		}
		if !on {
			return nil, &Error{Status: http.StatusServiceUnavailable, Detail: "the person API is switched off"}
		}
	}
	c := &call{by: by.Actor, partition: audit.DefaultPartition, vouches: by.Vouches}
	c.by.BelowRoles = true
	if persons := s.deps.Identity.Person; persons.Partitioned() && !isDiscovery(r.URL.Path) {
		c.partition, err = partitionOf(persons, r, by.Partitions)
	}
	return c, err
}

// isDiscovery reports whether a path is the same for all partitions. (RFC 7644 4)
func isDiscovery(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, prefix+"/"), "/")
	return slices.Contains([]string{"ServiceProviderConfig", "ResourceTypes", "Schemas"}, first)
}

func partitionOf(persons *person.Service, r *http.Request, only []string) (string, error) {
	name, err := jsonapi.PartitionOf(r, only, true)
	if e := new(jsonapi.Error); errors.As(err, &e) && e.Status == http.StatusBadRequest {
		return "", bad(invalidValue, e.Message)
	}
	if err != nil {
		return "", err
	}
	if authn.CheckPartition(name) != nil {
		return "", bad(invalidValue, "the header "+jsonapi.PartitionHeader+" names no partition")
	}
	if !persons.HasPartition(name) {
		return "", &Error{Status: http.StatusForbidden, Detail: "there is no such partition"}
	}
	return name, nil
}

// handler serves one operation; its error is written as a refusal.
type handler func(w http.ResponseWriter, r *http.Request, c *call) error

// methods serves a path by its methods, HEAD as GET; others are 405. (RFC 9110 15.5.6)
func (s *Server) methods(of map[string]handler) http.HandlerFunc {
	var allow []string
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		if of[m] != nil {
			allow = append(allow, m)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		serve := of[method]
		if serve == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.fail(w, r, &Error{Status: http.StatusMethodNotAllowed, Detail: "method not allowed"})
			return
		}
		if err := serve(w, r, callOf(r)); err != nil {
			s.fail(w, r, err)
		}
	}
}

// resourceID returns the id in the path of a resource, or 404 for a text that cannot be an id.
func resourceID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if len(id) != 36 {
		return "", notFound()
	}
	return id, nil
}

// answer writes the selected part of a resource, with its ETag and location.
func answer(w http.ResponseWriter, status int, o object, sel selection) {
	meta, _ := o["meta"].(object)
	w.Header().Set("ETag", text(meta, "version"))
	if status == http.StatusCreated {
		w.Header().Set("Location", text(meta, "location"))
	}
	write(w, status, sel.project(o))
}

// matches reports whether If-Match or If-None-Match names the version. Versions are weak, and compared weakly. (RFC
// 7644 3.14, RFC 9110 13.1)
func matches(header []string, version string) bool {
	for _, h := range header {
		for tag := range strings.SplitSeq(h, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(version, "W/") {
				return true
			}
		}
	}
	return false
}

// unchanged refuses a change when If-Match names another version of the resource, or If-None-Match this one.
func unchanged(r *http.Request, o object) error {
	meta, _ := o["meta"].(object)
	if h := r.Header.Values("If-Match"); len(h) > 0 && !matches(h, text(meta, "version")) {
		return preconditionFailed()
	}
	if matches(r.Header.Values("If-None-Match"), text(meta, "version")) {
		return preconditionFailed()
	}
	return nil
}
