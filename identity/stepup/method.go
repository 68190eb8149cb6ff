package stepup

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// HasWayIn tells whether a person can sign in by one of these identities, one of these passkeys, or a password.
func (s *Service) HasWayIn(tx storage.Tx, u *config.Units, personID string, rec *person.Record, left []person.CoupledIdentity, keys []passkeyRecord) (bool, error) {
	if rec.External != "" {
		return true, nil
	}
	for _, p := range s.federation.Connectable() {
		if slices.ContainsFunc(left, func(c person.CoupledIdentity) bool { return c.Provider == p.ID }) {
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

const strongestAvailable = "STRONGEST_AVAILABLE"

// Method is a way in which a person who is signed in reaches a higher level.
type Method struct {
	Name string // of the table of words; its messages are step_up.<name>.…
	// needs tells whether the service has what it works with. nil: it needs nothing.
	needs func(s *Service) bool
	// level is what it gives. 0: it is switched off.
	Level func(u *config.Units) int
	// has tells whether a person can use it. own must not be changed.
	has func(tx storage.Tx, si *session.Current, own *Record) (bool, error)
	// locked tells whether a method that the person has is of no use any more. nil: it never is.
	locked func(own *Record) bool
	// check looks at an answer. person.ErrMismatch: it is wrong. Otherwise spend looks again, in the transaction that raises the session, so that
	// nothing is used twice: it changes own, and is false when the answer holds no more.
	check func(ctx context.Context, s *Service, t *answer) (spend func(tx storage.Tx, own *Record) (bool, error), err error)
	// wrong is the message for a wrong answer, and with _locked behind it for the one that has locked the method. Empty: that of a code.
	wrong string
	// send sends a code, in the transaction that stores it, to address, "" for none, which mask shows to who knows it. nil: nothing is sent.
	send    func(s *Service, tx storage.Tx, si *session.Current, code string, now time.Time) error
	address func(tx storage.Tx, si *session.Current) (string, error)
	mask    func(to string) string
	// given says that whoever keeps the persons gives it: everybody has it, and nobody has set it up. ask tells them that somebody wants it.
	given bool
	ask   func(s *Service, w http.ResponseWriter, r *http.Request, x request, m *Method)
	// page is where it is done in place of the page with the field for a code. Empty: there.
	page string
	// setUp is the path of the page that sets it up. Empty: it cannot be set up by itself.
	setUp string
	// remove takes it off. nil: it cannot be removed by itself.
	remove func(own *Record)
}

// answer is one answer of a person.
type answer struct {
	flow   string
	method *Method
	si     *session.Current
	from   event.Origin
	own    Record
	// counter is what it is held against beside those of passwords.
	counter proof.Counter
	code    string // as the person has typed it
	// challenge is what a passkey has to sign: then code is its answer, and passkey is the id of the one that has signed, once it was checked.
	challenge []byte
	passkey   string
}

// Methods are all there are, the one that is easiest to use first among those of one level.
func Methods() []*Method {
	return []*Method{&passkeyMethod, &TOTPMethod, &PushMethod, &PINMethod, &SMSMethod, &EmailMethod, &deliveredMethod, &recoveryMethod}
}

// stepUpMethods are those that the service has what they need for.
func (s *Service) stepUpMethods() []*Method {
	return slices.DeleteFunc(Methods(), func(m *Method) bool { return m.needs != nil && !m.needs(s) })
}

func URL(flow string) string { return "/step-up?flow=" + url.QueryEscape(flow) }

// Reachable is the highest level that some person could step up to, and the highest that a password helps to get to: who has a passkey signs in with
// that at once, unless the first one is made on the way.
func (s *Service) Reachable(u *config.Units) (reach, byPassword int) {
	for _, m := range s.stepUpMethods() {
		reach = max(reach, m.Level(u))
		if m != &passkeyMethod || u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
			byPassword = max(byPassword, m.Level(u))
		}
	}
	return reach, byPassword
}

// Standing is how a person can step up.
type Standing struct {
	Units *config.Units
	// resetPIN says that a link can be sent for another PIN.
	resetPIN bool
	// suspect says that none of the person's passkeys is taken any more.
	suspect bool
	Own     Record
	All     []*Method
	Has     []*Method // switched on and set up, the strongest first
}

func (s *Service) ReadStanding(tx storage.Tx, si *session.Current) (*Standing, error) {
	u, err := s.units(tx)
	if err != nil {
		return nil, err
	}
	return s.StandingIn(tx, si, u)
}

// StandingIn is ReadStanding for a request that has the settings.
func (s *Service) StandingIn(tx storage.Tx, si *session.Current, u *config.Units) (_ *Standing, err error) {
	st := &Standing{Units: u, All: s.stepUpMethods()}
	if st.Own, err = readStepUp(tx, si.Session.PersonID); err != nil {
		return nil, err
	}
	for _, m := range st.All {
		if m.Level(u) == 0 {
			continue
		}
		ok, err := m.has(tx, si, &st.Own)
		if err != nil {
			return nil, err
		}
		if ok {
			st.Has = append(st.Has, m)
		}
	}
	to, err := s.resetsPIN(tx, si, st)
	if err != nil {
		return nil, err
	}
	st.resetPIN = to != ""
	keys, err := ReadPasskeys(tx, si.Session.PersonID)
	if err != nil {
		return nil, err
	}
	st.suspect = len(keys.Usable()) == 0
	slices.SortStableFunc(st.Has, func(a, b *Method) int { return cmp.Compare(b.Level(u), a.Level(u)) })
	return st, nil
}

func (s *Service) StandingOf(ctx context.Context, si *session.Current) (st *Standing, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		st, err = s.ReadStanding(tx, si)
		return err
	})
	return st, err
}

// readStepUp returns what a person has set up, perhaps nothing.
func readStepUp(tx storage.Tx, person string) (Record, error) {
	rec, err := Records.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) {
		return Record{}, nil
	}
	return rec, err
}

func putStepUp(tx storage.Tx, person string, own Record) error {
	return Records.Put(tx, person, own, time.Time{})
}

// reach is the highest level that the person can step up to.
func (st *Standing) reach() int { return st.strongest(st.usable()) }

// usable are the methods that are not locked.
func (st *Standing) usable() []*Method {
	return slices.DeleteFunc(slices.Clone(st.Has), func(m *Method) bool {
		return m.locked != nil && m.locked(&st.Own) || m == &passkeyMethod && st.suspect
	})
}

// mine are the methods that are this person's own.
func (st *Standing) mine() []*Method {
	return slices.DeleteFunc(slices.Clone(st.Has), func(m *Method) bool { return m.given })
}

func (st *Standing) strongest(list []*Method) int {
	if len(list) == 0 {
		return 0
	}
	return list[0].Level(st.Units)
}

// offers are the methods that reach a level: all of them, or the strongest alone where the configuration says so.
func (st *Standing) offers(level int) (out []*Method) {
	least := level
	if st.Units.StepUp.Strategy == strongestAvailable {
		least = max(least, st.reach())
	}
	for _, m := range st.usable() {
		if m.Level(st.Units) >= least {
			out = append(out, m)
		}
	}
	return out
}

// SetUpLevel is the level that a session needs to set up a method or to remove one: never less than the strongest that the person has,
// locked or not, since whoever knows the password alone would add one of their own.
func (st *Standing) SetUpLevel() int {
	a := st.Units.StepUp.Actions
	own := st.mine()
	if len(own) == 0 && a.AllowSetInitialStepUpMethodEnabled {
		return session.PasswordLevel
	}
	return max(a.SetupStepUpMethodsAuthenticationLevel, st.strongest(own))
}

// Settable are the methods that the person can set up on the way to a level.
func (st *Standing) Settable(level int) (out []*Method) {
	own := st.mine()
	if len(own) == 0 && !st.Units.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
		return nil
	}
	if len(own) > 0 && st.SetUpLevel() > st.reach() {
		return nil
	}
	for _, m := range st.All {
		if m.setUp != "" && m.Level(st.Units) >= level && !slices.Contains(st.Has, m) {
			out = append(out, m)
		}
	}
	return out
}

// Can tells whether the person can reach a level.
func (st *Standing) Can(level int) bool {
	return len(st.offers(level)) > 0 || len(st.Settable(level)) > 0 || st.unlocks(level)
}

// unlocks tells whether a link for another PIN helps to get to a level: the one there is would, but is locked.
func (st *Standing) unlocks(level int) bool {
	return st.resetPIN && PINMethod.locked(&st.Own) && PINMethod.Level(st.Units) >= level
}

// Pick returns the method with this name among those offered, or nil.
func Pick(offered []*Method, name string) *Method {
	for _, m := range offered {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// RemoveStepUp takes a method (authenticator, pin, push or passkey: all phones, all passkeys) off a person who cannot use it any more, such as after the loss of a phone. It returns
// person.ErrNoPerson, and ErrNoMethod where there is nothing to take off. Sessions that the method has raised fall to what is left.
func (s *Service) RemoveStepUp(ctx context.Context, usernameOrID, method string, by event.Actor) error {
	ev, err := s.person.NewEvents(by.Origin, stepUpRemoved)
	if err != nil {
		return err
	}
	now := s.now()
	return s.store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.person.FindMany(tx, usernameOrID)
		if err != nil {
			return err
		}
		own, err := readStepUp(tx, id)
		if err != nil {
			return err
		}
		switch {
		case method == TOTPMethod.Name && own.TOTP != nil:
			TOTPMethod.remove(&own)
		case method == PINMethod.Name && own.PIN != nil:
			PINMethod.remove(&own)
		case method == PushMethod.Name && len(own.Devices) > 0:
			PushMethod.remove(&own)
		case method == passkeyMethod.Name:
			dropped, err := dropPasskeys(tx, id, "")
			if err == nil && len(dropped) == 0 {
				err = ErrNoMethod
			}
			if err != nil {
				return err
			}
			if err := s.tellPasskey(tx, id, &rec, passkeyRemoved, now); err != nil {
				return err
			}
		default:
			return ErrNoMethod
		}
		if err := putStepUp(tx, id, own); err != nil {
			return err
		}
		if err := s.session.LowerSessions(tx, id, method, ""); err != nil {
			return err
		}
		e := by.Fill(ev[0], id, method)
		e.Partition = rec.PartitionName()
		return s.events.Append(tx, e)
	})
}
