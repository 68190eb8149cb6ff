package account

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	downloadPath = webflow.DataPath + "/download"
	maxOwnEvents = 5000 // of the newest events, which a download holds
	maxOwnCalls  = 1000 // likewise
)

// showData serves GET /account/data: the download of the person's data, and the deletion of the account.
func (s *Service) showData(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, webflow.DataPath)
	if err != nil {
		return err
	}
	return s.render(a, http.StatusOK, web.Dashboard{Key: "data", Parts: []web.Part{
		{
			ID: "download", Title: web.Say("data.download"), Text: web.Say("data.download.text"),
			Links: []web.Action{{Label: "data.download.submit", URL: downloadPath}},
		},
		{
			ID: "delete", Title: web.Say("data.delete"), Text: web.Say("data.delete.text"),
			Links: []web.Action{{Label: "data.delete.next", URL: deletePath, Danger: true}},
		},
	}})
}

// ownData is everything that is known of a person, for the person. It contains no secrets.
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
	Trusted      []ownTrusted        `json:"trusted_browsers,omitempty"`
	Applications []authn.Application `json:"applications"`
	AppPasswords []authn.AppPassword `json:"app_passwords,omitempty"`
	Events       []audit.Info        `json:"events"`
	Calls        []calllog.Found     `json:"calls,omitempty"` // that sites have recorded
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
	// Details are the claims of the provider.
	Details map[string][]string `json:"details,omitempty"`
}

type ownTrusted struct {
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Used      time.Time `json:"used"`
	Address   string    `json:"address,omitempty"`
	UserAgent string    `json:"user_agent,omitempty"`
}

// readOwnData reads everything in one snapshot.
func (s *Service) readOwnData(tx storage.Tx, of *session.Current, u *settings.Units, now time.Time) (*ownData, error) {
	id := of.Session.PersonID
	d, err := s.deps.Person.Details(tx, id)
	if err != nil {
		return nil, err
	}
	out := &ownData{
		ID: d.ID, Username: d.Username, State: d.State, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		Groups: append([]string{}, d.Groups...), Profile: d.Profile, Directory: d.Directory, Accounts: []ownAccount{},
	}
	if out.SignIn, err = s.readOwnSignIn(tx, of, u); err != nil {
		return nil, err
	}
	out.SignIn.Password = d.HasPassword
	elsewhere, err := person.CoupledIdentities(tx, id)
	if err != nil {
		return nil, err
	}
	for _, c := range elsewhere {
		out.Accounts = append(out.Accounts, ownAccount{c.Provider, c.Record.Issuer, c.Record.Subject, c.Record.Since})
	}
	open, err := s.deps.Session.OpenSessions(tx, id, of.Session.Epoch, now)
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		out.Sessions = append(out.Sessions, ownSession{
			Since: o.Record.OpenedAt(), LastSeen: o.Record.Seen, Address: o.Record.Address, UserAgent: o.Record.Agent, Provider: o.Record.Provider,
			Level: o.Record.Level, This: o.ID == of.ID, Details: o.Record.Details,
		})
	}
	trusts, err := trustedbrowser.OfPerson(tx, id, of.Session.Epoch, now)
	if err != nil {
		return nil, err
	}
	for _, b := range trusts {
		out.Trusted = append(out.Trusted, ownTrusted{b.Record.Since, b.Record.ExpiresAt, b.Record.Used, b.Record.Address, b.Record.Agent})
	}
	if out.Applications, err = s.apps.Applications(tx, id, now); err != nil {
		return nil, err
	}
	for i := range out.Applications {
		if out.Applications[i].Scopes == nil {
			out.Applications[i].Scopes = []authn.Scope{} // not null
		}
	}
	if out.AppPasswords, err = s.appPasswords.List(tx, id, now); err != nil {
		return nil, err
	}
	out.Events, err = readOwnEvents(tx, id)
	return out, err
}

func (s *Service) readOwnSignIn(tx storage.Tx, of *session.Current, u *settings.Units) (ownSignIn, error) {
	out := ownSignIn{Methods: []string{}}
	st, err := s.deps.StepUp.StandingIn(tx, of, u)
	if err != nil {
		return out, err
	}
	for _, m := range st.Has {
		out.Methods = append(out.Methods, m.Name)
	}
	set, err := passkey.Read(tx, of.Session.PersonID)
	for _, k := range set.Keys {
		out.Passkeys = append(out.Passkeys, ownPasskey{k.Name, k.Since, k.Used})
	}
	return out, err
}

func readOwnEvents(tx storage.Tx, personID string) (out []audit.Info, err error) {
	for e, err := range audit.OfPerson(tx, personID) {
		if err != nil {
			return nil, err
		}
		if len(out) == maxOwnEvents {
			break
		}
		info := e.Info()
		if byAnother(e) { // personal data of someone else
			info.ClientIP, info.UserAgent, info.EventAgentUser = "", "", ""
		}
		out = append(out, info)
	}
	return out, nil
}

// showDownload serves GET /account/data/download: everything that is known of the person, as a file.
func (s *Service) showDownload(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, downloadPath)
	if err != nil {
		return err
	}
	q.Again = webflow.DataPath
	now := s.deps.Now()
	var d *ownData
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if d, err = s.readOwnData(tx, a.SignIn, a.Settings, now); err != nil {
			return err
		}
		d.Calls, err = calllog.OfPerson(tx, d.ID, maxOwnCalls)
		return err
	})
	if err != nil {
		return err
	}
	body, err := json.MarshalIndent(d, "", "  ")
	if err == nil && q.Method == http.MethodGet { // HEAD has no body to record
		err = s.recordDownload(a, now)
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(webflow.DataPath)
	case err != nil:
		return err
	}
	webflow.Attach(q.W.Header(), "account-"+now.UTC().Format(time.DateOnly)+".json", "application/json")
	if _, err := q.W.Write(append(body, '\n')); err != nil {
		s.deps.Log.Debug("download not sent")
	}
	return nil
}

// recordDownload records the download before it is sent.
func (s *Service) recordDownload(a *webflow.Visit, now time.Time) error {
	ev, err := s.deps.Person.NewEvents(s.originOf(a), dataDownloaded)
	if err != nil {
		return err
	}
	return s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if err := s.recheck(tx, a, now); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, a.SignIn.OwnEvent(ev[0], ""))
	})
}

// Export returns what the person of an id can download of themselves, for someone else who is allowed to, and records
// it with who that is.
func (s *Service) Export(ctx context.Context, personID string, by audit.Actor) ([]byte, error) {
	ev, err := s.deps.Person.NewEvents(by.Origin, dataDownloaded)
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	var d *ownData
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		u, err := s.deps.Units(tx)
		if err != nil {
			return err
		}
		_, rec, err := s.deps.Person.Find(tx, personID)
		if err == nil && rec.State == person.Removed {
			err = person.ErrNoPerson
		}
		if err != nil {
			return err
		}
		of := &session.Current{Person: rec, Session: session.Record{PersonID: personID, Epoch: rec.Epoch}}
		if d, err = s.readOwnData(tx, of, u, now); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, by.Fill(ev[0], personID, ""))
	})
	if err == nil { // the log of calls grows all the time, and an update would meet it
		err = s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
			d.Calls, err = calllog.OfPerson(tx, personID, maxOwnCalls)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}
