package stepup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pushStepUpPath  = "/step-up/push"
	pushEnrolPath   = "/push/enrol"
	pushApprovePath = "/push/approve"

	kindPush  = "push"       // cookie of a phone that is asked; it opens nothing
	kindEnrol = "push-enrol" // cookie that keeps the link of a set-up out of the address

	pushDevices   = 5 // of one person
	pushCookie    = 400 * 24 * time.Hour
	pushEnrolLife = 10 * time.Minute
	pushEnrolTry  = 3 // numbers that are typed
	promptLife    = 2 * time.Minute
)

// PushMethod is a prompt on a phone, which is told the number that the browser shows.
var PushMethod = Method{
	Name: session.MethodPush, page: pushStepUpPath, setUp: front.SecurityPath + "/push",
	needs:  func(s *Service) bool { return s.push != nil },
	Level:  func(u *config.Units) int { return u.StepUp.AuthenticationMethods.PushAuthenticationLevel },
	has:    func(_ storage.Tx, _ *session.Current, own *Record) (bool, error) { return len(own.Devices) > 0, nil },
	remove: func(own *Record) { own.Devices = nil },
}

// newPushNumber returns two digits that nobody takes for one.
func newPushNumber(random io.Reader) (string, error) {
	const least, numbers = 10, 90
	const most = 1<<16 - 1<<16%numbers // above it the first ones would come more often
	for {
		var b [2]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", err
		}
		if n := int(binary.BigEndian.Uint16(b[:])); n < most {
			return strconv.Itoa(least + n%numbers), nil
		}
	}
}

// phone returns the cookie of the phone that a request comes from, or "".
func (s *Service) phone(r *http.Request) string {
	if v := s.jar.Get(r, kindPush); len(v) == 43 {
		return v
	}
	return ""
}

// phoneOf returns which of a person's devices has the cookie, or nil.
func (r *Record) phoneOf(cookie string) *pushDeviceRecord {
	hash := secret.Hash(cookie)
	if i := slices.IndexFunc(r.Devices, func(d pushDeviceRecord) bool { return cookie != "" && d.Cookie == hash }); i >= 0 {
		return &r.Devices[i]
	}
	return nil
}

func (s *Service) pushSection(_ storage.Tx, _ *session.Current, st *Standing) (*page.SecuritySection, error) {
	if s.push == nil {
		return nil, nil //nolint:nilnil // nothing sends prompts
	}
	out := &page.SecuritySection{Key: PushMethod.Name, State: "off", Actions: []page.SecurityAction{{Label: "security.set_up", URL: PushMethod.setUp}}}
	if len(st.Own.Devices) == 0 {
		return out, nil
	}
	out.State, out.Actions = "on", []page.SecurityAction{{Label: "security.remove", URL: removeURL(&PushMethod)}}
	if len(st.Own.Devices) < pushDevices {
		out.Actions = append(out.Actions, page.SecurityAction{Label: "security.push.another", URL: PushMethod.setUp})
	}
	for _, d := range st.Own.Devices {
		out.Items = append(out.Items, page.Row{Icon: "phone", Title: front.AgentText(d.Agent), Details: []page.Text{page.Say("security.push.since", "time", d.Since)}})
	}
	return out, nil
}

// pushPage writes a page about prompts.
func (s *Service) pushPage(w http.ResponseWriter, r *http.Request, locales []string, status int, in page.Push) {
	s.pages.Render(w, r, page.View{Template: "push", Status: status, Locales: locales, Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// numberField is the field for a number that another screen shows.
func numberField(label string) page.Field {
	return page.Field{Name: "number", Type: "code", Label: label, Autocomplete: "off", MaxLength: 2, Required: true}
}

// promptKey names a prompt: one for each step-up of a session.
func promptKey(flow, session string) string { return storage.Key(secret.Hash(flow), session) }

// state tells how a prompt stands now.
func (p *promptRecord) state(now time.Time) string {
	if p.State == promptWaits && !p.ExpiresAt.After(now) {
		return promptOver
	}
	return p.State
}

// The states of a prompt.
const (
	promptWaits    = "" // for an answer
	promptApproved = "approved"
	promptDenied   = "denied"
	promptWrong    = "wrong" // another number was typed
	promptOver     = "over"
)

// errAsked says that a prompt waits already.
var errAsked = errors.New("identity: the phones are asked already")

var errPrompt = fmt.Errorf("the prompt is over: %w", person.ErrMismatch)
