package mfa

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const removePath = webflow.SecurityPath + "/remove"

func removeURL(m *Method) string { return removePath + "?method=" + m.Name }

// readRemoval reads which method a request wants to remove.
func (s *Service) readRemoval(q *webflow.Request) (*Method, error) {
	m := Pick(s.methods(), q.URL.Query().Get("method"))
	if m == nil || m.remove == nil {
		return nil, webflow.NotFound()
	}
	st, err := s.needSetUp(q, removeURL(m))
	if err == nil && Pick(st.Has, m.Name) == nil {
		err = redirectInstead(q, webflow.SecurityPath)
	}
	return m, err
}

// removeForm names the form that removes a method.
func removeForm(q *webflow.Request, m *Method) string {
	return webflow.SessionForm("remove "+m.Name, q.SignIn)
}

// showRemove serves GET /account/security/remove?method=…: a question; it changes nothing.
func (s *Service) showRemove(q *webflow.Request) error {
	m, err := s.readRemoval(q)
	if err != nil {
		return err
	}
	csrf, err := s.deps.Front.FormToken(q, removeForm(q, m))
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "confirm", Data: web.Confirm{
		Key: "remove." + m.Name, Action: removeURL(m), CSRF: csrf, Cancel: webflow.SecurityPath,
	}})
	return nil
}

// handleRemove serves POST /account/security/remove?method=….
func (s *Service) handleRemove(q *webflow.Request) error {
	m, err := s.readRemoval(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, removeForm(q, m), removeURL(m))
	}
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpRemoved)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil || Pick(st.Has, m.Name) == nil {
			return err
		}
		own := st.Own
		m.remove(&own)
		if err := putRecord(tx, q.SignIn.Session.PersonID, own); err != nil {
			return err
		}
		if err := s.deps.Session.LowerSessions(tx, q.SignIn.Session.PersonID, m.Name, ""); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], m.Name))
	})
	if err != nil && !errors.Is(err, person.ErrMismatch) {
		return err
	}
	return q.Redirect(webflow.SecurityPath)
}

// Removal names a method that an administrator removes from a person who can no longer use it, such as after the loss
// of a phone.
type Removal struct {
	Method string // authenticator, pin, push (all phones) or passkey (all passkeys)
	// Mail tells the person by e-mail, with a link to the page that sets up another one. It needs an address, and a
	// server for e-mails. The removal of passkeys is always told.
	Mail bool
}

// RemoveStepUp takes a method away from a person. It returns person.ErrNoPerson, and ErrNoMethod when the person does
// not have the method. Sessions that the method raised fall to what is left.
func (s *Service) RemoveStepUp(ctx context.Context, usernameOrID string, r Removal, by audit.Actor) error {
	method := r.Method
	ev, err := s.deps.Person.NewEvents(by.Origin, stepUpRemoved)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.deps.Person.Find(tx, usernameOrID)
		if err != nil {
			return err
		}
		own, err := readRecord(tx, id)
		if err != nil {
			return err
		}
		switch {
		case method == TOTPMethod.Name && own.TOTP != nil:
			TOTPMethod.remove(&own)
		case method == pinMethod.Name && own.PIN != nil:
			pinMethod.remove(&own)
		case method == pushMethod.Name && len(own.Devices) > 0:
			pushMethod.remove(&own)
		case method == passkeyMethod.Name:
			dropped, err := passkey.Drop(tx, id, "")
			if err == nil && !dropped {
				err = ErrNoMethod
			}
			if err != nil {
				return err
			}
			if err := removeIdleRecovery(tx, id, &own); err != nil {
				return err
			}
		default:
			return ErrNoMethod
		}
		told := notify.MethodRemoved
		if method == passkeyMethod.Name {
			told = notify.PasskeyRemoved
		}
		if r.Mail || told == notify.PasskeyRemoved {
			if err := s.notifyMethod(tx, id, &rec, told, method, now); err != nil {
				return err
			}
		}
		if err := putRecord(tx, id, own); err != nil {
			return err
		}
		if err := s.deps.Session.LowerSessions(tx, id, method, ""); err != nil {
			return err
		}
		e := by.Fill(ev[0], id, method)
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
}

// HasWayIn reports whether a person who has these linked identities and these passkeys left can still sign in.
func (s *Service) HasWayIn(tx storage.Tx, u *settings.Units, personID string, rec *person.Record, left []person.Identity,
	keys []passkey.Passkey,
) (bool, error) {
	if rec.External != "" {
		return true, nil
	}
	for _, p := range s.deps.Federation.Connectable() {
		if slices.ContainsFunc(left, func(c person.Identity) bool { return c.Provider == p.ID }) {
			return true, nil
		}
	}
	if !u.PasswordLogin() {
		return false, nil // passkeys sign in where passwords do
	}
	if s.HasPasskeys() && len(keys) > 0 {
		return true, nil
	}
	return person.Passwords.Has(tx, personID)
}

// ForgetStepUp removes everything that a removed person had set up. The removal of the person calls it.
func ForgetStepUp(tx storage.Tx, personID string) error {
	if err := passkey.Forget(tx, personID); err != nil {
		return err
	}
	return records.Delete(tx, personID)
}

// ForgetSetUps removes the set-ups that were begun in a session. The end of the session calls it.
func ForgetSetUps(tx storage.Tx, sessionID string) error {
	for _, forget := range []func(storage.Tx, string) error{smsSetUps.Delete, totpSetUps.Delete, pushEnrols.Delete} {
		if err := forget(tx, sessionID); err != nil {
			return err
		}
	}
	return nil
}
