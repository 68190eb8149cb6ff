package webflow

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// WithSignIn adds the sign-in that a page belongs to, if any, to its path.
func WithSignIn(path, flow string) string {
	if flow == "" {
		return path
	}
	return path + "?" + url.Values{"flow": {flow}}.Encode()
}

// SignInOf returns the sign-in under way with this id, if it belongs to this browser and has not expired; otherwise "".
func (s *Service) SignInOf(r *http.Request, id string) (own string, rec FlowRecord, err error) {
	now := s.now()
	err = s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		own, rec, err = s.SignInIn(tx, &Request{Request: r}, id, now)
		return err
	})
	return own, rec, err
}

// SignInIn is SignInOf within a transaction.
func (s *Service) SignInIn(tx storage.Tx, q *Request, id string, now time.Time) (string, FlowRecord, error) {
	rec, err := findFlow(tx, id)
	if err != nil || rec == nil || !rec.ExpiresAt.After(now) || !s.jar.SameBrowser(q.Request, rec.Browser) {
		return "", FlowRecord{}, err
	}
	return id, *rec, nil
}

// Detour is a request of a page that the sign-in page links to: its flow, if it came from one, and the settings.
type Detour struct {
	ID   string // of the flow. Empty: none
	Flow FlowRecord
	U    *settings.Units
}

// Waits fills in that no attempt is allowed for a while.
func Waits(w http.ResponseWriter, in *web.Form, problem string, wait time.Duration) {
	in.Problem, in.Wait = problem, ratelimit.RetryAfter(w, wait)
}

// LinkFlow names, in a link's data, the sign-in that it was asked for in.
const LinkFlow = "flow"
