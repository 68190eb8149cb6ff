package front

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
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

// SignInIn is SignInOf inside a transaction.
func (s *Service) SignInIn(tx storage.Tx, q *Request, id string, now time.Time) (string, FlowRecord, error) {
	rec, err := s.ReadFlowIn(tx, q, id, now)
	if errors.As(err, new(*Answer)) {
		return "", FlowRecord{}, nil
	}
	return id, rec, err
}

// Detour is a request of a page beside the sign-in page: its flow, if it came from one, and what is configured.
type Detour struct {
	ID   string // "": none
	Flow FlowRecord
	U    *config.Units
}

// Detour reads what the pages beside the sign-in page share. Otherwise it has written the answer, 404 where there is no such page, and is not ok.
func (s *Service) Detour(w http.ResponseWriter, r *http.Request, path string, there func(*config.Units) bool) (a Detour, ok bool) {
	var err error
	if a.U, err = s.person.Settings(r.Context()); err != nil {
		s.Fail(w, r, err, path)
		return a, false
	}
	if !there(a.U) {
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return a, false
	}
	if a.ID, a.Flow, err = s.SignInOf(r, r.URL.Query().Get("flow")); err != nil {
		s.Fail(w, r, err, path)
		return a, false
	}
	return a, true
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
	in.Problem, in.Wait = problem, int((wait+time.Second-1)/time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
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
