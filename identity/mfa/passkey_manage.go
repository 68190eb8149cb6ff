package mfa

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxPasskeyName = 64 // characters

	passkeyNameForm   = "passkey name"
	passkeyRemoveForm = "passkey remove"
)

func (s *Service) passkeySection(tx storage.Tx, q *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if !slices.Contains(st.All, &passkeyMethod) {
		return nil, nil //nolint:nilnil // switched off
	}
	set, err := passkey.Read(tx, q.SignIn.Session.PersonID)
	if err != nil {
		return nil, err
	}
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(passkeyRemoveForm, q.SignIn))
	if err != nil {
		return nil, err
	}
	out := &web.SecuritySection{
		Key: passkeyMethod.Name, State: "off", Count: len(set.Keys),
		Actions: []web.SecurityAction{{Label: "security.passkey.add", URL: passkeyMethod.setUp}},
	}
	if len(set.Keys) > 0 {
		out.State = "on"
	}
	for _, k := range set.Keys {
		out.Items = append(out.Items, passkeyRow(&k, csrf))
	}
	return out, nil
}

// passkeyRow is a passkey as a row of the page. One that the browser made without a question is removed without one, by
// a form with this CSRF token.
func passkeyRow(k *passkey.Passkey, csrf string) web.Row {
	id := "?" + url.Values{"id": {k.ID}}.Encode()
	row := web.Row{
		Icon: "key", Name: k.Name, Details: []web.Text{web.Say("security.passkey.added", "time", k.Since)},
		Actions: []web.Action{
			{Label: "security.passkey.rename", URL: passkeyNamePath + id},
			{Label: "security.remove", URL: passkeyRemovePath + id, Danger: true},
		},
	}
	if k.Automatic {
		row.Details = append(row.Details, web.Say("security.passkey.automatic"))
		row.Actions[1].CSRF = csrf
	}
	if k.Name == "" {
		row.Title = web.Say("security.passkey.unnamed", "n", k.Number)
	}
	if !k.Used.IsZero() {
		row.Details = append(row.Details, web.Say("security.passkey.used", "time", k.Used))
	}
	if k.Suspect {
		row.Details = append(row.Details, web.Say("security.passkey.suspect"))
	}
	return row
}

// PasskeySignals tells the browser of a person which passkeys they have. (web.View)
func (s *Service) PasskeySignals(tx storage.Tx, si *session.Current) (string, error) {
	set, err := passkey.Read(tx, si.Session.PersonID)
	return s.Passkeys.Signals(si.Person.Username, si.Person.Name, &set), err
}

// onePasskey is a request about one passkey.
type onePasskey struct {
	self string
	key  passkey.Passkey
}

// readOnePasskey reads which passkey a request of the page at path is about.
func (s *Service) readOnePasskey(q *webflow.Request, path string) (x onePasskey, err error) {
	id := q.URL.Query().Get("id")
	if !person.IsText(id, 64) {
		id = ""
	}
	x.self = path + "?" + url.Values{"id": {id}}.Encode()
	if !s.HasPasskeys() {
		return x, webflow.NotFound()
	}
	var set passkey.Set
	_, err = s.needSetUp(q, x.self, func(tx storage.Tx) (err error) {
		set, err = passkey.Read(tx, q.SignIn.Session.PersonID)
		return err
	})
	if err != nil {
		return x, err
	}
	i := set.ByID(id)
	if i < 0 {
		return x, webflow.NotFound()
	}
	x.key = set.Keys[i]
	return x, nil
}

// showNamePasskey serves GET /account/security/passkeys/name?id=….
func (s *Service) showNamePasskey(q *webflow.Request) error {
	x, err := s.readOnePasskey(q, passkeyNamePath)
	if err != nil {
		return err
	}
	return s.namePasskeyPage(q, x, http.StatusOK, "")
}

func (s *Service) namePasskeyPage(q *webflow.Request, x onePasskey, status int, problem string) error {
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(passkeyNameForm, q.SignIn))
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "passkey_name", Status: status, Locales: q.SignIn.Locales(), Data: web.PasskeyName{
		Action: x.self, Name: x.key.Name, CSRF: csrf, Cancel: webflow.SecurityPath, Problem: problem,
	}})
	return nil
}

// handleNamePasskey serves POST /account/security/passkeys/name?id=….
func (s *Service) handleNamePasskey(q *webflow.Request) error {
	x, err := s.readOnePasskey(q, passkeyNamePath)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(passkeyNameForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	name := strings.TrimSpace(q.PostForm.Get("name"))
	if name == "" || !person.IsText(name, maxPasskeyName) {
		return s.namePasskeyPage(q, x, http.StatusUnprocessableEntity, "problem.passkey_name")
	}
	err = s.changePasskey(q, x.key.ID, passkeyRenamed, name, func(tx storage.Tx, set *passkey.Set, i int) error {
		set.Keys[i].Name = name
		return passkey.Put(tx, q.SignIn.Session.PersonID, *set)
	})
	if err != nil && !errors.Is(err, person.ErrMismatch) {
		return err
	}
	return q.Redirect(webflow.SecurityPath)
}

// changePasskey changes one passkey in a transaction, with its event. person.ErrMismatch: the passkey is gone, or the
// session may no longer change it.
func (s *Service) changePasskey(
	q *webflow.Request, id string, kind audit.Type, reason string, change func(tx storage.Tx, set *passkey.Set, i int) error,
) error {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), kind)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if _, err := s.CheckSetUp(tx, q.SignIn, now); err != nil {
			return err
		}
		set, err := passkey.Read(tx, q.SignIn.Session.PersonID)
		if err != nil {
			return err
		}
		i := set.ByID(id)
		if i < 0 {
			return person.ErrMismatch
		}
		set.Keys = slices.Clone(set.Keys)
		if err := change(tx, &set, i); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], reason))
	})
}

// checkWayIn returns ErrLastWay when a person could not sign in without one of their passkeys.
func (s *Service) checkWayIn(tx storage.Tx, personID string, rec *person.Record, set *passkey.Set, id string) error {
	u, err := s.deps.Units(tx)
	if err != nil {
		return err
	}
	linked, err := person.CoupledIdentities(tx, personID)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(set.Usable(), func(k passkey.Passkey) bool { return k.ID == id })
	ok, err := s.HasWayIn(tx, u, personID, rec, linked, rest)
	if err == nil && !ok {
		err = ErrLastWay
	}
	return err
}

// showRemovePasskey serves GET /account/security/passkeys/remove?id=…: a question; it changes nothing.
func (s *Service) showRemovePasskey(q *webflow.Request) error {
	x, err := s.readOnePasskey(q, passkeyRemovePath)
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, webflow.SessionForm(passkeyRemoveForm, q.SignIn))
	if err != nil {
		return err
	}
	name := x.key.Name
	if name == "" {
		name = strconv.Itoa(x.key.Number)
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "confirm", Locales: q.SignIn.Locales(), Data: web.Confirm{
		Key: "remove.passkey", Name: name, Action: x.self, CSRF: csrf, Cancel: webflow.SecurityPath,
	}})
	return nil
}

// handleRemovePasskey serves POST /account/security/passkeys/remove?id=….
func (s *Service) handleRemovePasskey(q *webflow.Request) error {
	x, err := s.readOnePasskey(q, passkeyRemovePath)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(passkeyRemoveForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	personID, now := q.SignIn.Session.PersonID, s.deps.Now()
	err = s.changePasskey(q, x.key.ID, passkeyRemoved, x.key.Name, func(tx storage.Tx, set *passkey.Set, _ int) error {
		rec, err := person.Records.Get(tx, personID)
		if err != nil {
			return err
		}
		if err := s.checkWayIn(tx, personID, &rec, set, x.key.ID); err != nil {
			return err
		}
		if _, err := passkey.Drop(tx, personID, x.key.ID); err != nil {
			return err
		}
		own, err := readRecord(tx, personID)
		if err == nil {
			err = removeIdleRecovery(tx, personID, &own)
		}
		if err != nil {
			return err
		}
		if err := s.deps.Session.LowerSessions(tx, personID, passkeyMethod.Name, x.key.ID); err != nil {
			return err
		}
		return s.notifyMethod(tx, personID, &rec, notify.PasskeyRemoved, session.MethodPasskey, now)
	})
	switch {
	case errors.Is(err, ErrLastWay):
		s.deps.Pages.Render(q.W, q.Request, web.View{
			Template: "message", Status: http.StatusConflict, Locales: q.SignIn.Locales(),
			Data: web.Message{Key: "passkey_last", Next: webflow.SecurityPath},
		})
		return nil
	case err != nil && !errors.Is(err, person.ErrMismatch):
		return err
	}
	return q.Redirect(webflow.SecurityPath)
}
