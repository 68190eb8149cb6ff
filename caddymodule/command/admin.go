package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/registry"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// maxAdminBody is the size in bytes of a request to the admin API.
const maxAdminBody = 1 << 20

// AdminAPI adds /gatehouse/ to Caddy's admin endpoint, for the commands. Caddy guards it: it listens on a loopback
// address unless configured otherwise, and refuses foreign Host and Origin headers.
type AdminAPI struct{}

// CaddyModule implements caddy.Module.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.gatehouse", New: func() caddy.Module { return new(AdminAPI) }}
}

// adminCall runs one operation and returns the answer, which is written as JSON. nil: it has written the answer itself.
type adminCall func(i *Instance, w http.ResponseWriter, r *http.Request) (any, error)

// adminHandler serves one operation on the instance that is active now.
func adminHandler(call adminCall) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		app, ok := activeApp()
		if !ok {
			writeAdmin(w, http.StatusNotFound, adminError{"the running configuration has no gatehouse"})
			return
		}
		inst, err := app.Instance(r.Context())
		if err != nil {
			writeAdmin(w, http.StatusServiceUnavailable, adminError{err.Error()})
			return
		}
		defer inst.Leave()
		if err := checkAdminRequest(r); err != nil {
			writeAdmin(w, http.StatusUnsupportedMediaType, adminError{err.Error()})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		r = r.WithContext(event.WithCaller(r.Context(), commandCaller(r)))
		answer, err := call(inst, w, r)
		switch {
		case err != nil:
			writeAdmin(w, adminStatus(err), adminError{err.Error()})
		case answer != nil:
			writeAdmin(w, http.StatusOK, answer)
		}
	}
}

// checkAdminRequest demands JSON of every request that changes something: a page of another site cannot send that
// without a preflight.
func checkAdminRequest(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return errors.New("want Content-Type: application/json")
	}
	return nil
}

// adminError is the body of a refusal, as Caddy's own.
type adminError struct {
	Error string `json:"error"`
}

func writeAdmin(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func adminStatus(err error) int {
	switch {
	case errors.Is(err, person.ErrUsernameTaken), errors.Is(err, person.ErrGroupTaken), errors.Is(err, registry.ErrExists):
		return http.StatusConflict
	case errors.Is(err, person.ErrNoPerson), errors.Is(err, actiontoken.ErrNoToken), errors.Is(err, stepup.ErrNoMethod), errors.Is(err, person.ErrNoGroup), errors.Is(err, registry.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, secret.ErrBusy), errors.Is(err, storage.ErrFull), errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrCorrupt):
		return http.StatusServiceUnavailable
	}
	if e := new(oauth.Error); errors.As(err, &e) {
		return e.Status
	}
	if e := new(rest.Error); errors.As(err, &e) {
		return e.Status
	}
	return http.StatusBadRequest
}

// body reads the one JSON value of a request. Unknown members are refused. The decoder of package rest does not know
// types with an UnmarshalJSON of their own, which requests hold.
func body(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read request: more than one JSON value")
	}
	return nil
}

// commandCaller is the actor of an operation in the events. The admin API has no users, so it is the API itself, at the
// peer's address.
func commandCaller(r *http.Request) event.Actor {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a socket of this machine
		host = event.Self.ClientIP
	}
	return event.Actor{ID: "admin", Name: "admin API", Origin: event.Origin{ClientIP: host, UserAgent: r.UserAgent()}}
}

// commandActor is the same for the operations of identity.
func commandActor(r *http.Request) event.Actor {
	by := event.CallerOf(r.Context())
	return event.Actor{ID: by.ID, Name: by.Name, Origin: by.Origin}
}

// outcome is the answer of an operation that returns no data.
type outcome struct {
	Status string `json:"status"`
}

var _ caddy.AdminRouter = (*AdminAPI)(nil)
