package mfa

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Method is a way in which a signed-in person reaches a higher level.
type Method struct {
	Name string // as tokens and events call it; its messages are step_up.<name>.…
	// needs reports whether the service has what the method works with. nil: it needs nothing.
	needs func(s *Service) bool
	// Level returns the level that the method gives. 0: it is switched off.
	Level func(u *settings.Units) int
	// has reports whether a person can use the method. It must not change own.
	has func(tx storage.Tx, si *session.Current, own *Record) (bool, error)
	// locked reports whether a method that the person has is locked. nil: it never is.
	locked func(own *Record) bool
	// check verifies an answer. It returns person.ErrMismatch for a wrong one, otherwise what spends the right one.
	check func(ctx context.Context, s *Service, a *response) (spender, error)
	// wrong is the message for a wrong answer, and with the suffix _locked for the one that locked the method. Empty:
	// the message for a wrong code.
	wrong string
	// send sends a code in the transaction that stores it. nil: the method sends nothing.
	send func(s *Service, tx storage.Tx, si *session.Current, code string, now time.Time) error
	// address returns where send sends it to, or "" for nowhere; mask is how a page shows that.
	address func(tx storage.Tx, si *session.Current) (string, error)
	mask    func(to string) string
	// given says that administrators give the method: every person has it, and none has set it up.
	given bool
	// request tells the administrators that a person wants a code. nil: pages do not offer it.
	request func(s *Service, q *webflow.Request, x *stepUp, m *Method) error
	// page is the path of the method's own page. Empty: it is done on the page with the field for a code.
	page string
	// setUp is the path of the page that sets it up. Empty: no page does.
	setUp string
	// remove removes it. nil: a person cannot remove it.
	remove func(own *Record)
}

// spender spends a right answer in the transaction that raises the session, so no answer counts twice. It changes own,
// and returns false when the answer is no longer valid.
type spender func(tx storage.Tx, own *Record) (bool, error)

// response is the answer of a person to the question of a method.
type response struct {
	stepUp *stepUp
	method *Method
	signIn *session.Current
	from   audit.Origin
	code   string // as the person typed it; the answer of a passkey
	// challenge is the challenge for a passkey, and passkey the id of the one that signed it, once check has verified
	// it.
	challenge []byte
	passkey   string
}

// own returns the methods that the person had set up when the request began.
func (a *response) own() *Record { return &a.stepUp.standing.Own }

// allMethods returns all methods, the easiest to use first among those of one level.
func allMethods() []*Method {
	return []*Method{&passkeyMethod, &TOTPMethod, &pushMethod, &pinMethod, &smsMethod, &emailMethod, &deliveredMethod, &recoveryMethod}
}

// methods returns the methods that the service has what they need for.
func (s *Service) methods() []*Method {
	return slices.DeleteFunc(allMethods(), func(m *Method) bool { return m.needs != nil && !m.needs(s) })
}

// Pick returns the method of that name in a list, or nil.
func Pick(list []*Method, name string) *Method {
	for _, m := range list {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// LevelOf returns the level that the method of that name gives. 0: it is switched off, or unknown.
func (s *Service) LevelOf(u *settings.Units, name string) int {
	if m := Pick(s.methods(), name); m != nil {
		return m.Level(u)
	}
	return 0
}

// Offers reports whether the person can use the method of that name now.
func (st *Standing) Offers(name string) bool { return Pick(st.usable(), name) != nil }

// URL returns the address of the page where the step-up of a flow goes on.
func URL(flow string) string { return stepUpPath + "?flow=" + url.QueryEscape(flow) }

func chooseURL(flow string) string { return URL(flow) + "&choose=1" }

func methodURL(flow string, m *Method) string { return URL(flow) + "&method=" + m.Name }

// Reachable returns the highest level that any person can step up to, and the highest that a password sign-in can lead
// to. A passkey counts for the latter only if it can be the first method that a person sets up on the way: people who
// have one sign in with it directly.
func (s *Service) Reachable(u *settings.Units) (reach, byPassword int) {
	for _, m := range s.methods() {
		if m == &recoveryMethod {
			continue // it gives what an app or a passkey gives
		}
		reach = max(reach, m.Level(u))
		if m != &passkeyMethod || u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
			byPassword = max(byPassword, m.Level(u))
		}
	}
	return reach, byPassword
}

// withFlow returns a path with the step-up that the request belongs to, if any, and where the page at that path leads
// afterwards.
func withFlow(path string, r *http.Request) (self, next string) {
	if id := flowOf(r); id != "" {
		return path + "?flow=" + url.QueryEscape(id), URL(id)
	}
	return path, webflow.SecurityPath
}

// flowOf returns the id of the flow that a request names, or "".
func flowOf(r *http.Request) string {
	if id := r.URL.Query().Get("flow"); len(id) <= 64 {
		return id
	}
	return ""
}

// codePurpose returns the purpose of a code for a step-up, sent to where the person reads codes now. To is empty when
// that is nowhere.
func (m *Method) codePurpose(tx storage.Tx, flow string, si *session.Current) (challenge.CodePurpose, error) {
	to, err := m.address(tx, si)
	return challenge.CodePurpose{Purpose: "step-up " + m.Name, Subject: flow, Bound: si.ID, To: to, Limit: si.Session.PersonID}, err
}
