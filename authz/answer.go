package authz

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/pace"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// apiHeaders sets what every answer of the endpoints for machines carries. (token server document, "Token response";
// RFC 6749 5.1)
func apiHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json;charset=UTF-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
}

// json writes v with the headers of apiHeaders.
func (s *Server) json(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.fail(w, r, oauth.ServerError(err))
		return
	}
	apiHeaders(w)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client has gone
}

// errorBody is the OAuth error of the endpoints for machines. (RFC 6749 5.2)
type errorBody struct {
	Error       string `json:"error"`
	Description string `json:"error_description,omitempty"`
	Ref         string `json:"ref,omitempty"` // docs/decisions.md#refusals
}

// fail writes err as an OAuth error and logs it, once.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := oauth.AsError(err)
	ref := s.record(r, e)
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	switch {
	case e.RetryAfter > 0:
		pace.RetryAfter(w, e.RetryAfter)
	case e.Status == http.StatusServiceUnavailable:
		pace.RetryAfter(w, pace.Soon)
	}
	s.json(w, r, e.Status, errorBody{errorCode(r, e.Code), e.Description, ref})
}

// record writes the one log line of a refusal (info) or failure (error) and keeps why. It returns the reference.
func (s *Server) record(r *http.Request, e *oauth.Error) (ref string) {
	return s.deps.Refusals.Refuse(r.Context(), s.deps.Log, e.Refusal(r), e.Cause)
}

// failPage writes err as a page for people and logs it. key is the message of a refusal; our own failures have messages
// of their own. again is a link on our origin for "Start again", or "".
func (s *Server) failPage(w http.ResponseWriter, r *http.Request, err error, key, again string) {
	e := oauth.AsError(err)
	switch e.Status {
	case http.StatusServiceUnavailable:
		key = "error.unavailable"
	case http.StatusInternalServerError:
		key = "error.internal"
	}
	s.deps.Pages.Fail(w, r, e.Status, page.Failure{Key: key, Again: again, Ref: s.record(r, e)})
}

// update is Store.Update whose failures are 503: nobody knows what was written.
func (s *Server) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.Update(ctx, fn))
}

// view is Store.View whose failures are 503.
func (s *Server) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.View(ctx, fn))
}

// now is the clock of the package. It is read once, before a transaction.
func (s *Server) now() time.Time { return s.deps.Now().UTC() }
