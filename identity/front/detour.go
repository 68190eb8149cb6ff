package front

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/pace"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// WithSignIn is a path of ours that knows which sign-in it belongs to.
func WithSignIn(path, flow string) string {
	if flow == "" {
		return path
	}
	return path + "?" + url.Values{"flow": {flow}}.Encode()
}

// SignInOf returns the sign-in under way that a request names, when it is of this browser and still good. There is none: "".
func (s *Service) SignInOf(r *http.Request, id string) (string, FlowRecord, error) {
	rec, err := s.ReadFlow(r.Context(), id)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (!rec.ExpiresAt.After(s.now()) || !s.jar.SameBrowser(r, rec.Browser)) {
		return "", FlowRecord{}, nil
	}
	return id, rec, err
}

// SignInIn is SignInOf within a transaction.
func (s *Service) SignInIn(tx storage.Tx, q *Request, id string, now time.Time) (string, FlowRecord, error) {
	rec, err := findFlow(tx, id)
	if err != nil || rec == nil || !rec.ExpiresAt.After(now) || !s.jar.SameBrowser(q.Request, rec.Browser) {
		return "", FlowRecord{}, err
	}
	return id, *rec, nil
}

// Detour is a request of a page beside the sign-in page: its flow, if it came from one, and what is configured.
type Detour struct {
	ID   string // "": none
	Flow FlowRecord
	U    *config.Units
}

// FormPage writes a page that is one form.
func (s *Service) FormPage(w http.ResponseWriter, r *http.Request, a Detour, form string, status int, in page.Form) {
	if in.Action != "" {
		browser, err := s.jar.Browser(w, r, s.NewID)
		if err != nil {
			s.Fail(w, r, err, in.Action)
			return
		}
		in.CSRF = s.pages.CSRF(browser, form)
	}
	s.pages.Render(w, r, s.View(a.Flow.Demand, "form", status, in))
}

// Waits fills in that nothing is taken for a while.
func Waits(w http.ResponseWriter, in *page.Form, problem string, wait time.Duration) {
	in.Problem, in.Wait = problem, pace.RetryAfter(w, wait)
}

// CheckPost tells whether a POST is of that form. Otherwise it has written the answer.
func (s *Service) CheckPost(w http.ResponseWriter, r *http.Request, form, again string) bool {
	q := &Request{Request: r, W: w}
	err := s.CheckForm(q, form, again)
	s.Render(q, err)
	return err == nil
}

// LinkFlow names, in a link's data, the sign-in that it was asked for in.
const LinkFlow = "flow"
