package authz

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// json writes v with the headers of answers for machines.
func (s *Server) json(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.fail(w, r, oauth.ServerError(err))
		return
	}
	jsonresponse.WriteJSON(w, status, body)
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
		ratelimit.RetryAfter(w, e.RetryAfter)
	case e.Status == http.StatusServiceUnavailable:
		ratelimit.RetryAfter(w, ratelimit.Soon)
	}
	jsonresponse.Write(w, e.Status, jsonresponse.Error{Error: grant.ErrorCode(r, e.Code), Description: e.Description, Ref: ref})
}

// record writes the one log line of a refusal (info) or failure (error) and keeps why. It returns the reference.
func (s *Server) record(r *http.Request, e *oauth.Error) (ref string) {
	return s.deps.Refusals.Refuse(r.Context(), s.deps.Log, e.Refusal(r), e.Cause)
}

// failPage writes err as a page for people and logs it. key is the message of a refusal; our own failures have messages
// of their own. again is a link on our origin for "Start again", or "".
func (s *Server) failPage(w http.ResponseWriter, r *http.Request, err error, key, again string) {
	s.failWith(w, r, err, web.Failure{Key: key, Again: again})
}

// failWith is failPage for a page that says more.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, err error, f web.Failure) {
	e := oauth.AsError(err)
	switch e.Status {
	case http.StatusServiceUnavailable:
		f.Key, f.Details = "error.unavailable", nil
	case http.StatusInternalServerError:
		f.Key, f.Details = "error.internal", nil
	}
	f.Ref = s.record(r, e)
	s.deps.Pages.Fail(w, r, e.Status, f)
}

// update is Store.Update whose failures are 503: no one knows what was written.
func (s *Server) update(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.Update(ctx, fn))
}

// view is Store.View whose failures are 503.
func (s *Server) view(ctx context.Context, fn func(storage.Tx) error) error {
	return oauth.StorageError(s.deps.Store.View(ctx, fn))
}

// now is the clock of the package. It is read once, before a transaction.
func (s *Server) now() time.Time { return s.deps.Now().UTC() }
