package webflow

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/session"
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
	now := s.deps.Now()
	err = s.deps.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		own, rec, err = s.SignInIn(tx, &Request{Request: r}, id, now)
		return err
	})
	return own, rec, err
}

// SignInIn is SignInOf within a transaction.
func (s *Service) SignInIn(tx storage.Tx, q *Request, id string, now time.Time) (string, FlowRecord, error) {
	rec, err := findFlow(tx, id)
	if err != nil || rec == nil || !rec.ExpiresAt.After(now) || !s.deps.Jar.SameBrowser(q.Request, rec.Browser) {
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

// IsPlainSignIn reports whether no application and no particular page asked for the sign-in.
func (a Detour) IsPlainSignIn() bool {
	d := a.Flow.Demand
	return a.ID == "" || d.Client.ID == "" && (d.Return == "/sign-in" || d.Return == Landing(a.U, ""))
}

// WithTarget adds the origin of a redirect to those that the forms of a page can lead to.
func (a Detour) WithTarget(to string) Detour {
	c := &a.Flow.Demand.Client
	c.Targets = append(append([]string(nil), c.Targets...), TargetsOf(to)...)
	return a
}

// Always is the condition of pages that exist under every configuration.
func Always(*settings.Units) bool { return true }

// CheckOpen returns session.ErrClosed while sign-in is switched off.
func CheckOpen(u *settings.Units) error {
	if !u.Features.LoginEnabled {
		return session.ErrClosed
	}
	return nil
}

// SignInURL is the page for a sign-in: the flow continues if there is one.
func SignInURL(flow string) string {
	if flow == "" {
		return "/sign-in"
	}
	return FlowURL(flow) + "&choose=1"
}

// SignInLink is the link to that page.
func SignInLink(flow string) web.FormLink {
	return web.FormLink{Label: "forgot_sent.submit", URL: SignInURL(flow)}
}

// CodeFields is the input of a page for a code. problem is a message key, "" for none.
func CodeFields(label, problem string) []web.Field {
	return web.Fields(problem != "", web.Field{
		Name: "code", Type: "code", Label: label, Required: true, Invalid: problem != "", MaxLength: challenge.MaxCode,
	})
}

// WaitForm is a form that says how long nothing is accepted.
func WaitForm(q *Request, problem string, wait time.Duration) (in web.Form) {
	Waits(q.W, &in, problem, wait)
	return in
}

// Waits fills in that no attempt is allowed for a while.
func Waits(w http.ResponseWriter, in *web.Form, problem string, wait time.Duration) {
	in.Problem, in.Wait = problem, ratelimit.RetryAfter(w, wait)
}

// LinkFlow names, in a link's data, the sign-in that it was asked for in.
const LinkFlow = "flow"
