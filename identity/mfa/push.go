package mfa

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pushStepUpPath  = "/step-up/push"
	pushEnrolPath   = "/push/enrol"
	pushApprovePath = "/push/approve"

	kindPush  = "push"       // cookie that recognises a phone; it gives access to nothing
	kindEnrol = "push-enrol" // cookie that keeps the link of a set-up out of the address

	maxPhones      = 5 // of one person
	phoneLife      = 400 * 24 * time.Hour
	pushEnrolLife  = 10 * time.Minute
	pushEnrolTries = 3 // numbers that can be typed
	promptLife     = 2 * time.Minute
)

// pushMethod is a prompt on a phone, where the person types the number that the browser shows.
var pushMethod = Method{
	Name: session.MethodPush, page: pushStepUpPath, setUp: webflow.SecurityPath + "/push",
	needs: func(s *Service) bool { return s.deps.Push != nil },
	Level: func(u *settings.Units) int { return u.StepUp.AuthenticationMethods.PushAuthenticationLevel },
	has:   func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return len(own.Devices) > 0, nil },
	remove: func(own *Record) {
		own.Devices = nil
		delete(own.Used, session.MethodPush)
	},
}

// newPushNumber returns two digits, the first of which is not zero.
func newPushNumber(random io.Reader) (string, error) {
	first, err := secret.Text(random, "123456789", 1)
	if err != nil {
		return "", err
	}
	second, err := secret.Text(random, "0123456789", 1)
	return first + second, err
}

// phone returns the value of the cookie of the phone that a request comes from, or "".
func (s *Service) phone(r *http.Request) string {
	if v := s.deps.Jar.Get(r, kindPush); len(v) == 43 {
		return v
	}
	return ""
}

// phone returns the device of a person that has the cookie, or nil.
func (r *Record) phone(cookie string) *pushDeviceRecord {
	hash := secret.Hash(cookie)
	if i := slices.IndexFunc(r.Devices, func(d pushDeviceRecord) bool { return cookie != "" && d.Cookie == hash }); i >= 0 {
		return &r.Devices[i]
	}
	return nil
}

func (s *Service) pushSection(_ storage.Tx, _ *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if s.deps.Push == nil {
		return nil, nil //nolint:nilnil // nothing sends prompts
	}
	if len(st.Own.Devices) == 0 {
		return switchedOff(&pushMethod), nil
	}
	out := switchedOn(&pushMethod, st.Own.Used[pushMethod.Name])
	if len(st.Own.Devices) < maxPhones {
		out.Actions = append(out.Actions, web.SecurityAction{Label: "security.push.another", URL: pushMethod.setUp})
	}
	for _, d := range st.Own.Devices {
		since := web.Say("security.push.since", "time", d.Since)
		out.Items = append(out.Items, web.Row{Icon: "phone", Title: webflow.AgentText(d.Agent), Details: []web.Text{since}})
	}
	return out, nil
}

// phonePage writes a page about prompts, on the phone.
func (s *Service) phonePage(q *webflow.Request, status int, in web.Push) error {
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "push", Status: status, Data: in})
	return nil
}

// numberField is the field for a number that another screen shows.
func numberField(label string) web.Field {
	return web.Field{Name: "number", Type: "code", Label: label, Autocomplete: "off", MaxLength: 2, Required: true}
}

// promptKey returns the key of a prompt: there is one for each step-up of a session.
func promptKey(flow, sessionID string) string { return storage.Key(secret.Hash(flow), sessionID) }

// The states of a prompt.
const (
	promptWaiting  = ""
	promptApproved = "approved"
	promptDenied   = "denied"
	promptWrong    = "wrong" // the person typed another number
	promptOver     = "over"
)

// state returns the state of a prompt now.
func (p *promptRecord) state(now time.Time) string {
	if p.State == promptWaiting && !p.ExpiresAt.After(now) {
		return promptOver
	}
	return p.State
}

// readPrompt returns a prompt by its key, or nil.
func readPrompt(tx storage.Tx, key string) (*promptRecord, error) {
	rec, ok, err := prompts.Find(tx, key)
	if !ok {
		return nil, err
	}
	return &rec, nil
}

// denialCounter counts the prompts that a person has denied.
func denialCounter(personID string) challenge.Counter {
	return challenge.Counter{Key: storage.Key("push-denied", personID), Limit: 1, Clears: true}
}
