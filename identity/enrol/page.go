package enrol

import (
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// always is the condition of pages that exist under every configuration.
func always(*settings.Units) bool { return true }

// detour reads what a page besides the sign-in page needs.
func (s *Service) detour(q *webflow.Request, path string, exists func(*settings.Units) bool) (webflow.Detour, error) {
	a, err := s.front.DetourOf(q, path, exists)
	q.Again = webflow.WithSignIn(path, a.ID)
	return a, err
}

// redirectAway redirects the browser, for a function that has no other result then.
func redirectAway(q *webflow.Request, to string) error {
	if err := q.Redirect(to); err != nil {
		return err
	}
	return webflow.ErrAnswered
}

// checkOpen returns session.ErrClosed while sign-in is switched off.
func checkOpen(u *settings.Units) error {
	if !u.Features.LoginEnabled {
		return session.ErrClosed
	}
	return nil
}

// answerUsed is the answer to a request that comes too late: another one was faster, or the settings have changed.
func answerUsed(again string) error {
	return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: again}
}

// signInURL is the page for a sign-in: the flow continues if there is one.
func signInURL(flow string) string {
	if flow == "" {
		return "/sign-in"
	}
	return webflow.FlowURL(flow) + "&choose=1"
}

// signInLink is the link to that page.
func signInLink(flow string) web.FormLink {
	return web.FormLink{Label: "forgot_sent.submit", URL: signInURL(flow)}
}

// isPlainSignIn reports whether no application and no particular page asked for the sign-in.
func isPlainSignIn(a webflow.Detour) bool {
	d := a.Flow.Demand
	return a.ID == "" || d.Client.ID == "" && (d.Return == "/sign-in" || d.Return == webflow.Landing(a.U, ""))
}

// codeFields is the input of a page for a code. problem is a message key, "" for none.
func codeFields(label, problem string) []web.Field {
	return web.Fields(problem != "", web.Field{
		Name: "code", Type: "code", Label: label, Required: true, Invalid: problem != "", MaxLength: challenge.MaxCode,
	})
}

// waitForm is a form that says how long nothing is accepted.
func waitForm(q *webflow.Request, problem string, wait time.Duration) (in web.Form) {
	webflow.Waits(q.W, &in, problem, wait)
	return in
}

// echo returns the input if a page can show it again, otherwise "".
func echo(typed string, most int) string {
	if !person.IsText(typed, most) {
		return ""
	}
	return typed
}

// seconds returns a number of seconds of the settings as a duration.
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// verifyEmail marks an address of a profile as verified. It reports whether the profile has the address.
func verifyEmail(prof *person.ProfileRecord, address string) (found bool) {
	p := prof.Profile.Clone()
	for i := range p.EmailAddresses {
		if e := &p.EmailAddresses[i]; person.FoldEmail(e.Value) == person.FoldEmail(address) {
			e.Verified, e.Stated, found = true, false, true
		}
	}
	prof.Profile = p
	return found
}
