// Package adminapi serves `caddy gatehouse` on Caddy's admin API: each operation decodes a request, calls identity,
// authz or package admin, and answers JSON.
package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/recovery"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
	"github.com/gatehouse-id/gatehouse/storage"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

const (
	// MaxBody is the maximum size of a request to the admin API, in bytes, but for a whole configuration.
	MaxBody       = 1 << 20
	maxAdminDepth = 16 // how deep its objects and arrays nest
)

// AdminAPI adds /gatehouse/ to Caddy's admin endpoint, for the commands. Caddy guards it: it listens on a loopback
// address unless configured otherwise, and refuses foreign Host and Origin headers.
type AdminAPI struct{}

// CaddyModule implements caddy.Module.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.gatehouse", New: func() caddy.Module { return new(AdminAPI) }}
}

// adminCall runs one operation and returns the answer, which is written as JSON. nil: it has written the answer itself.
type adminCall func(i *Instance, w http.ResponseWriter, r *http.Request) (any, error)

// reading is an operation on the value in the body of a request.
func reading[T any](call func(i *Instance, r *http.Request, in T) (any, error)) adminCall {
	return func(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
		var in T
		if err := body(r, &in); err != nil {
			return nil, err
		}
		return call(i, r, in)
	}
}

// adminHandler serves one operation, with a body of at most so many bytes, on the instance that is active now.
func adminHandler(call adminCall, most int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		app, ok := activeApp()
		if !ok && caddy.ActiveContext().Context == nil { // Caddy activates a configuration after its servers listen
			writeAdmin(w, http.StatusServiceUnavailable, Refusal{"the server is still starting: try again in a moment"})
			return
		}
		if !ok {
			writeAdmin(w, http.StatusNotFound, Refusal{"the running configuration has no gatehouse"})
			return
		}
		inst, err := app.Instance(r.Context())
		if err != nil {
			writeAdmin(w, http.StatusServiceUnavailable, Refusal{err.Error()})
			return
		}
		defer inst.Leave()
		if err := checkAdminRequest(r); err != nil {
			writeAdmin(w, http.StatusUnsupportedMediaType, Refusal{err.Error()})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		answer, err := call(inst, w, r)
		switch {
		case err != nil:
			status, text := Refused(err)
			if status >= http.StatusInternalServerError {
				inst.Log.Error("admin request failed", zap.String("path", r.URL.Path), zap.Int("status", status), zap.Error(err))
			}
			writeAdmin(w, status, Refusal{text})
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

// Refusal is the body of a refusal, as Caddy's own.
type Refusal struct {
	Error string `json:"error"`
}

func writeAdmin(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// badRequest is an error of the request, whose text is for the administrator who sent it.
type badRequest struct{ error }

func (e badRequest) Unwrap() error { return e.error }

func badRequestf(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

// Refused returns the status and the text of the answer to an error of an operation. The text of an unknown error stays
// inside.
func Refused(err error) (status int, text string) {
	is := func(of ...error) bool {
		return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(person.ErrUsernameTaken, person.ErrGroupTaken, clientstore.ErrExists, clientstore.ErrDeclared, clientstore.ErrChanged):
		return http.StatusConflict, err.Error()
	case is(person.ErrNoPerson, actiontoken.ErrNoToken, mfa.ErrNoMethod, person.ErrNoGroup, clientstore.ErrUnknown, denial.ErrUnknown,
		keys.ErrUnknown, errUnknownItem):
		return http.StatusNotFound, err.Error()
	case is(invitation.ErrInvitationsOff, recovery.ErrNoReset, challenge.ErrCodesOff, mfa.ErrLastWay):
		return http.StatusConflict, err.Error()
	case errors.As(err, new(*person.UncertainError)):
		return http.StatusServiceUnavailable, err.Error()
	case is(secret.ErrBusy, storage.ErrFull, storage.ErrUnavailable, storage.ErrCorrupt, storage.ErrReadOnly, context.Canceled,
		context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "try again later; the log of the server has the reason"
	}
	if e := new(oauth.Error); errors.As(err, &e) && e.Status < http.StatusInternalServerError {
		return e.Status, e.Code + ": " + e.Description
	}
	if e := new(jsonapi.Error); errors.As(err, &e) {
		return e.Status, e.Message
	}
	if e := new(challenge.TooSoonError); errors.As(err, &e) {
		return http.StatusTooManyRequests, err.Error()
	}
	if e := new(http.MaxBytesError); errors.As(err, &e) {
		return http.StatusRequestEntityTooLarge, "the body is larger than " + strconv.FormatInt(e.Limit, 10) + " bytes"
	}
	for _, known := range []any{
		new(badRequest), new(*person.ValidationError), new(*person.TooManyError), new(*person.StateError), new(*client.InvalidError),
		new(*actiontoken.FeatureOffError), new(*strictjson.Error), new(explain.BadRequest),
	} {
		if errors.As(err, known) {
			return http.StatusBadRequest, err.Error()
		}
	}
	return http.StatusInternalServerError, "internal error; the log of the server has the reason"
}

// body reads the one JSON value of a request, strictly. (strictjson.Decode) A member that is null counts as absent: the
// commands send null for an empty slice.
func body(r *http.Request, v any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return badRequestf("read request: %w", err)
	}
	if err := strictjson.Check(raw, maxAdminDepth); err != nil {
		return badRequestf("read request: the body %w", err)
	}
	sent, err := strictjson.Value(raw)
	if err != nil {
		return badRequestf("read request: %w", err)
	}
	dropNulls(sent)
	if raw, err = json.Marshal(sent); err != nil {
		return badRequestf("read request: %w", err)
	}
	if err := strictjson.Decode(raw, v); err != nil {
		return badRequestf("read request: %w", err)
	}
	return nil
}

// dropNulls removes the members that are null from every object in a value.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, v any) bool { return v == nil })
		for _, v := range value {
			dropNulls(v)
		}
	case []any:
		for _, v := range value {
			dropNulls(v)
		}
	}
}

// callerID is the id of the actor of every operation.
const callerID = "admin"

// caller returns the actor of an operation. The admin API has no users, so it is the API itself, at the peer's address.
func caller(r *http.Request) audit.Actor {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a socket of this machine
		host = audit.Self.ClientIP
	}
	return audit.Actor{ID: callerID, Name: "admin API", Origin: audit.Origin{ClientIP: host, UserAgent: r.UserAgent()}}
}

// Outcome is the answer of an operation that returns no data.
type Outcome struct {
	Status string `json:"status"`
}

var _ caddy.AdminRouter = (*AdminAPI)(nil)
