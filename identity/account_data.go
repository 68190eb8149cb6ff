package identity

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	downloadPath = dataPath + "/download"
	deletePath   = dataPath + "/delete"

	maxOwnEvents = 5000 // events that a download holds, the newest
)

// showData serves GET /account/data: what the person can take along, and the way out.
func (s *Service) showData(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guard(w, r, dataPath)
	if !ok {
		return
	}
	s.accountPage(w, r, a, http.StatusOK, page.Dashboard{Key: "data", Parts: []page.Part{
		{ID: "download", Title: page.Say("data.download"), Text: page.Say("data.download.text"), Links: []page.Action{{Label: "data.download.submit", URL: downloadPath}}},
		{ID: "delete", Title: page.Say("data.delete"), Text: page.Say("data.delete.text"), Links: []page.Action{{Label: "data.delete.next", URL: deletePath}}},
	}})
}

// ownData is all that is known of a person, for themselves. It holds nothing that opens anything.
type ownData struct {
	ID           string              `json:"id"`
	Username     string              `json:"username"`
	State        State               `json:"state"`
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	Groups       []string            `json:"groups"`
	Profile      Profile             `json:"profile"`
	Directory    Directory           `json:"directory,omitzero"`
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
func (s *Service) gatherOwnData(tx storage.Tx, a *onAccount, now time.Time) (*ownData, error) {
	id := a.si.session.PersonID
	d, err := s.Details(tx, id)
	if err != nil {
		return nil, err
	}
	out := &ownData{
		ID: d.ID, Username: d.Username, State: d.State, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, Groups: append([]string{}, d.Groups...), Profile: d.Profile, Directory: d.Directory,
		SignIn: ownSignIn{Password: d.HasPassword, Methods: []string{}}, Accounts: []ownAccount{},
	}
	st, err := s.readStanding(tx, a.si)
	if err != nil {
		return nil, err
	}
	for _, m := range st.has {
		out.SignIn.Methods = append(out.SignIn.Methods, m.name)
	}
	set, err := readPasskeys(tx, id)
	if err != nil {
		return nil, err
	}
	for _, k := range set.Keys {
		out.SignIn.Passkeys = append(out.SignIn.Passkeys, ownPasskey{k.Name, k.Since, k.Used})
	}
	elsewhere, err := coupledOf(tx, id)
	if err != nil {
		return nil, err
	}
	for _, c := range elsewhere {
		out.Accounts = append(out.Accounts, ownAccount{c.provider, c.rec.Issuer, c.rec.Subject, c.rec.Since})
	}
	open, err := s.openSessions(tx, id, a.si.session.Epoch, now)
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		out.Sessions = append(out.Sessions, ownSession{o.rec.opened(), o.rec.Seen, o.rec.Address, o.rec.Agent, o.rec.Provider, o.rec.Level, o.id == a.si.id, o.rec.Details})
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
	a, ok := s.guard(w, r, downloadPath)
	if !ok {
		return
	}
	now := s.Now()
	var d *ownData
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		d, err = s.gatherOwnData(tx, a, now)
		return err
	})
	var body []byte
	if err == nil {
		body, err = json.MarshalIndent(d, "", "  ")
	}
	var ev []event.Event
	if err == nil {
		ev, err = s.newEvents(s.Origin(r), dataDownloaded)
	}
	if err == nil && r.Method == http.MethodGet { // by HEAD nobody gets it
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if err := s.still(tx, a); err != nil {
				return err
			}
			return s.Events.Append(tx, a.si.own(ev[0], ""))
		})
	}
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, dataPath)
		return
	case err != nil:
		s.fail(w, r, err, dataPath)
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
		s.Log.Debug("download not sent")
	}
}

// showDelete serves GET /account/data/delete: it says what is lost and asks, and changes nothing.
func (s *Service) showDelete(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guard(w, r, deletePath, changePasswordLevel)
	if !ok {
		return
	}
	acc, err := s.accountOf(r.Context(), a.si.session.PersonID)
	if err != nil {
		s.fail(w, r, err, deletePath)
		return
	}
	s.deletePage(w, r, a, acc, http.StatusOK, page.Dashboard{}, "")
}

// deletePage asks for the password, or for the username of who has none.
func (s *Service) deletePage(w http.ResponseWriter, r *http.Request, a *onAccount, acc account, status int, d page.Dashboard, problem string) {
	field := page.Field{Name: "password", Type: "password", Label: "account.password.current", Autocomplete: "current-password", Required: true, Problem: problem}
	if acc.phc == "" {
		field = page.Field{Name: "username", Label: "data.delete.type", LabelFill: []any{"account", acc.person.Username}, Required: true, Problem: problem}
	}
	d.Key, d.Cancel = "delete", dataPath
	d.Parts = []page.Part{{Form: &page.PartForm{Action: deletePath, CSRF: a.csrf, Submit: "data.delete.submit", Fields: page.Fields(d.Problem != "", field)}}}
	s.accountPage(w, r, a, status, d)
}

// handleDelete serves POST /account/data/delete: everything of the person ends, and the username is free.
func (s *Service) handleDelete(w http.ResponseWriter, r *http.Request) {
	a, ok := s.guardPost(w, r, deletePath, changePasswordLevel)
	if !ok {
		return
	}
	acc, err := s.accountOf(r.Context(), a.si.session.PersonID)
	if err != nil {
		s.fail(w, r, err, deletePath)
		return
	}
	if acc.phc != "" {
		wait, err := s.confirmPassword(r, acc, a.si.id, r.PostForm.Get("password"))
		switch {
		case errors.Is(err, errMismatch):
			s.deletePage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "problem.password_current")
			return
		case err != nil:
			s.fail(w, r, err, deletePath)
			return
		case wait > 0:
			s.deletePage(w, r, a, acc, http.StatusTooManyRequests, throttled(w, wait), "")
			return
		}
	} else if strings.TrimSpace(r.PostForm.Get("username")) != acc.person.Username {
		s.deletePage(w, r, a, acc, http.StatusUnprocessableEntity, page.Dashboard{}, "problem.delete_username")
		return
	}
	list, err := s.applicationsOf(r, a)
	if err == nil {
		err = s.RemovePerson(r.Context(), a.si.session.PersonID, s.actor(r, a.si), func(tx storage.Tx, _ *Details) error { return s.still(tx, a) })
	}
	switch {
	case errors.Is(err, errMismatch), errors.Is(err, ErrNoPerson):
		s.redirect(w, r, dataPath)
	case err != nil:
		s.fail(w, r, err, deletePath)
	default:
		s.withdrawAll(r, a, list)
		s.jar.Clear(w, kindSession)
		s.Pages.Render(w, r, page.View{Template: "message", Locales: a.si.locales(), Data: page.Message{Key: "deleted", Next: "/sign-in"}})
	}
}

// withdrawAll forgets what a person who is gone had given to applications. It was worth nothing any more, so that nobody waits for it in vain.
func (s *Service) withdrawAll(r *http.Request, a *onAccount, list []login.Application) {
	by := event.Caller{ID: a.si.session.PersonID, Name: a.si.person.Username, Origin: s.Origin(r)}
	ctx := event.WithCaller(context.WithoutCancel(r.Context()), by)
	for _, app := range list {
		if _, err := s.apps.WithdrawConsent(ctx, by.ID, app.ID); err != nil {
			s.Log.Error("consent of a removed person not forgotten", zap.String("person_id", by.ID), zap.String("client_id", app.ID), zap.Error(err))
		}
	}
}
