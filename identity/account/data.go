package account

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	downloadPath = front.DataPath + "/download"
	deletePath   = front.DataPath + "/delete"

	maxOwnEvents = 5000 // events that a download holds, the newest
)

// showData serves GET /account/data: what the person can take along, and the way out.
func (s *Service) showData(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, front.DataPath)
	if !ok {
		return
	}
	s.front.RenderAccount(w, r, a, http.StatusOK, page.Dashboard{Key: "data", Parts: []page.Part{
		{ID: "download", Title: page.Say("data.download"), Text: page.Say("data.download.text"), Links: []page.Action{{Label: "data.download.submit", URL: downloadPath}}},
		{ID: "delete", Title: page.Say("data.delete"), Text: page.Say("data.delete.text"), Links: []page.Action{{Label: "data.delete.next", URL: deletePath}}},
	}})
}

// ownData is all that is known of a person, for themselves. It holds nothing that opens anything.
type ownData struct {
	ID           string              `json:"id"`
	Username     string              `json:"username"`
	State        person.State        `json:"state"`
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	Groups       []string            `json:"groups"`
	Profile      person.Profile      `json:"profile"`
	Directory    person.Directory    `json:"directory,omitzero"`
	SignIn       ownSignIn           `json:"sign_in"`
	Accounts     []ownAccount        `json:"accounts_elsewhere"`
	Sessions     []ownSession        `json:"sessions"`
	Applications []login.Application `json:"applications"`
	Events       []event.Info        `json:"events"`
}

type ownSignIn struct {
	Password bool         `json:"password"`
	Methods  []string     `json:"methods"`
	Passkeys []ownPasskey `json:"passkeys,omitempty"`
}

type ownPasskey struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Used  time.Time `json:"used,omitzero"`
}

type ownAccount struct {
	Provider string    `json:"provider"`
	Issuer   string    `json:"issuer,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

type ownSession struct {
	Since     time.Time `json:"since"`
	LastSeen  time.Time `json:"last_seen"`
	Address   string    `json:"address,omitempty"`
	UserAgent string    `json:"user_agent,omitempty"`
	Provider  string    `json:"provider"`
	Level     int       `json:"level"`
	This      bool      `json:"this"`
	// Details are what the provider has said.
	Details map[string][]string `json:"details,omitempty"`
}

// gatherOwnData reads all of it, as it is at one moment.
func (s *Service) gatherOwnData(tx storage.Tx, a *front.Visit, now time.Time) (*ownData, error) {
	id := a.Si.Session.PersonID
	d, err := s.person.Details(tx, id)
	if err != nil {
		return nil, err
	}
	out := &ownData{
		ID: d.ID, Username: d.Username, State: d.State, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, Groups: append([]string{}, d.Groups...), Profile: d.Profile, Directory: d.Directory,
		SignIn: ownSignIn{Password: d.HasPassword, Methods: []string{}}, Accounts: []ownAccount{},
	}
	st, err := s.stepup.ReadStanding(tx, a.Si)
	if err != nil {
		return nil, err
	}
	for _, m := range st.Has {
		out.SignIn.Methods = append(out.SignIn.Methods, m.Name)
	}
	set, err := stepup.ReadPasskeys(tx, id)
	if err != nil {
		return nil, err
	}
	for _, k := range set.Keys {
		out.SignIn.Passkeys = append(out.SignIn.Passkeys, ownPasskey{k.Name, k.Since, k.Used})
	}
	elsewhere, err := person.CoupledIdentities(tx, id)
	if err != nil {
		return nil, err
	}
	for _, c := range elsewhere {
		out.Accounts = append(out.Accounts, ownAccount{c.Provider, c.Rec.Issuer, c.Rec.Subject, c.Rec.Since})
	}
	open, err := s.session.OpenSessions(tx, id, a.Si.Session.Epoch, now)
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		out.Sessions = append(out.Sessions, ownSession{o.Rec.OpenedAt(), o.Rec.Seen, o.Rec.Address, o.Rec.Agent, o.Rec.Provider, o.Rec.Level, o.ID == a.Si.ID, o.Rec.Details})
	}
	if out.Applications, err = s.apps.Applications(tx, id, now); err != nil {
		return nil, err
	}
	for i := range out.Applications {
		if out.Applications[i].Scopes == nil {
			out.Applications[i].Scopes = []login.Scope{} // not null
		}
	}
	for e, err := range event.OfPerson(tx, id) {
		if err != nil {
			return nil, err
		}
		if len(out.Events) == maxOwnEvents {
			break
		}
		info := e.Info()
		if byAnother(e) { // where they were and who they are is theirs
			info.ClientIP, info.UserAgent, info.EventAgentUser = "", "", ""
		}
		out.Events = append(out.Events, info)
	}
	return out, nil
}

// handleDownload serves GET /account/data/download: all that is known of the person, as a file.
func (s *Service) handleDownload(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, downloadPath)
	if !ok {
		return
	}
	now := s.now()
	var d *ownData
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		d, err = s.gatherOwnData(tx, a, now)
		return err
	})
	var body []byte
	if err == nil {
		body, err = json.MarshalIndent(d, "", "  ")
	}
	var ev []event.Event
	if err == nil {
		ev, err = s.person.NewEvents(s.origin(r), dataDownloaded)
	}
	if err == nil && r.Method == http.MethodGet { // by HEAD nobody gets it
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if err := s.still(tx, a); err != nil {
				return err
			}
			return s.events.Append(tx, a.Si.OwnEvent(ev[0], ""))
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.DataPath)
		return
	case err != nil:
		s.front.Fail(w, r, err, front.DataPath)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", `attachment; filename="account-`+now.UTC().Format(time.DateOnly)+`.json"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if _, err := w.Write(append(body, '\n')); err != nil {
		s.log.Debug("download not sent")
	}
}

// showDelete serves GET /account/data/delete: it says what is lost and asks, and changes nothing.
func (s *Service) showDelete(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, deletePath, changePasswordLevel)
	if !ok {
		return
	}
	acc, err := s.person.HolderByID(r.Context(), a.Si.Session.PersonID)
	if err != nil {
		s.front.Fail(w, r, err, deletePath)
		return
	}
	s.deletePage(w, r, a, acc, http.StatusOK, page.Dashboard{}, "")
}

// deletePage asks for the password, or for the username of who has none.
func (s *Service) deletePage(w http.ResponseWriter, r *http.Request, a *front.Visit, acc person.Holder, status int, d page.Dashboard, problem string) {
	field := page.Field{Name: "password", Type: "password", Label: "account.password.current", Autocomplete: "current-password", Required: true, Problem: problem}
	if acc.PHC == "" {
		field = page.Field{Name: "username", Label: "data.delete.type", LabelFill: []any{"account", acc.Person.Username}, Required: true, Problem: problem}
	}
	d.Key, d.Cancel = "delete", front.DataPath
	d.Parts = []page.Part{{Form: &page.PartForm{Action: deletePath, CSRF: a.Csrf, Submit: "data.delete.submit", Fields: page.Fields(d.Problem != "", field)}}}
	s.front.RenderAccount(w, r, a, status, d)
}

// handleDelete serves POST /account/data/delete: everything of the person ends, and the username is free.
func (s *Service) handleDelete(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.GuardPost(w, r, deletePath, changePasswordLevel)
	if !ok {
		return
	}
	acc, err := s.person.HolderByID(r.Context(), a.Si.Session.PersonID)
	if err != nil {
		s.front.Fail(w, r, err, deletePath)
		return
	}
	if acc.PHC != "" {
		wait, err := s.confirmPassword(r, acc, a.Si.ID, r.PostForm.Get("password"))
		switch {
		case errors.Is(err, person.ErrMismatch):
			s.deletePage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "problem.password_current")
			return
		case err != nil:
			s.front.Fail(w, r, err, deletePath)
			return
		case wait > 0:
			s.deletePage(w, r, a, acc, http.StatusTooManyRequests, throttled(w, wait), "")
			return
		}
	} else if strings.TrimSpace(r.PostForm.Get("username")) != acc.Person.Username {
		s.deletePage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "problem.delete_username")
		return
	}
	list, err := s.applicationsOf(r, a)
	if err == nil {
		err = s.person.RemovePerson(r.Context(), a.Si.Session.PersonID, s.front.Actor(r, a.Si), func(tx storage.Tx, _ *person.Details) error { return s.still(tx, a) })
	}
	switch {
	case errors.Is(err, person.ErrMismatch), errors.Is(err, person.ErrNoPerson):
		s.front.Redirect(w, r, front.DataPath)
	case err != nil:
		s.front.Fail(w, r, err, deletePath)
	default:
		s.withdrawAll(r, a, list)
		s.jar.Clear(w, session.CookieSession)
		s.pages.Render(w, r, page.View{Template: "message", Locales: a.Si.Locales(), Data: page.Message{Key: "deleted", Next: "/sign-in"}})
	}
}

// withdrawAll forgets what a person who is gone had given to applications. It was worth nothing any more, so that nobody waits for it in vain.
func (s *Service) withdrawAll(r *http.Request, a *front.Visit, list []login.Application) {
	by := event.Actor{ID: a.Si.Session.PersonID, Name: a.Si.Person.Username, Origin: s.origin(r)}
	ctx := context.WithoutCancel(r.Context())
	for _, app := range list {
		if _, err := s.apps.WithdrawConsent(ctx, by.ID, app.ID, by); err != nil {
			s.log.Error("consent of a removed person not forgotten", zap.String("person_id", by.ID), zap.String("client_id", app.ID), zap.Error(err))
		}
	}
}
