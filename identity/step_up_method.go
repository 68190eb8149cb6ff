package identity

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

const strongestAvailable = "STRONGEST_AVAILABLE"

// stepUpMethod is a way in which a person who is signed in reaches a higher level.
type stepUpMethod struct {
	name string // of the table of words; its messages are step_up.<name>.…
	// needs tells whether the service has what it works with. nil: it needs nothing.
	needs func(s *Service) bool
	// level is what it gives. 0: it is switched off.
	level func(u *config.Units) int
	// has tells whether a person can use it. own must not be changed.
	has func(tx storage.Tx, si *signedIn, own *stepUpRecord) (bool, error)
	// locked tells whether a method that the person has is of no use any more. nil: it never is.
	locked func(own *stepUpRecord) bool
	// check looks at an answer. errMismatch: it is wrong. Otherwise spend looks again, in the transaction that raises the session, so that
	// nothing is used twice: it changes own, and is false when the answer holds no more.
	check func(ctx context.Context, s *Service, t *stepUpTry) (spend func(tx storage.Tx, own *stepUpRecord) (bool, error), err error)
	// wrong is the message for a wrong answer, and with _locked behind it for the one that has locked the method. Empty: that of a code.
	wrong string
	// send sends a code, in the transaction that stores it, to address, "" for none, which mask shows to who knows it. nil: nothing is sent.
	send    func(s *Service, tx storage.Tx, si *signedIn, code string, now time.Time) error
	address func(tx storage.Tx, si *signedIn) (string, error)
	mask    func(to string) string
	// given says that whoever keeps the persons gives it: everybody has it, and nobody has set it up. ask tells them that somebody wants it.
	given bool
	ask   func(s *Service, w http.ResponseWriter, r *http.Request, x steppingUp, m *stepUpMethod)
	// page is where it is done in place of the page with the field for a code. Empty: there.
	page string
	// setUp is the path of the page that sets it up. Empty: it cannot be set up by itself.
	setUp string
	// remove takes it off. nil: it cannot be removed by itself.
	remove func(own *stepUpRecord)
}

// stepUpTry is one answer of a person.
type stepUpTry struct {
	flow   string
	method *stepUpMethod
	si     *signedIn
	from   event.Origin
	own    stepUpRecord
	// counter is what it is held against beside those of passwords.
	counter counter
	code    string // as the person has typed it
	// challenge is what a passkey has to sign: then code is its answer, and passkey is the id of the one that has signed, once it was checked.
	challenge []byte
	passkey   string
}

// everyMethod are all there are, the one that is easiest to use first among those of one level.
func everyMethod() []*stepUpMethod {
	return []*stepUpMethod{&passkeyMethod, &totpMethod, &pushMethod, &pinMethod, &smsMethod, &emailMethod, &deliveredMethod, &recoveryMethod}
}

// stepUpMethods are those that the service has what they need for.
func (s *Service) stepUpMethods() []*stepUpMethod {
	return slices.DeleteFunc(everyMethod(), func(m *stepUpMethod) bool { return m.needs != nil && !m.needs(s) })
}

func stepUpURL(flow string) string { return "/step-up?flow=" + url.QueryEscape(flow) }

// reachable is the highest level that some person could step up to, and the highest that a password helps to get to: who has a passkey signs in with
// that at once, unless the first one is made on the way.
func (s *Service) reachable(u *config.Units) (reach, byPassword int) {
	for _, m := range s.stepUpMethods() {
		reach = max(reach, m.level(u))
		if m != &passkeyMethod || u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
			byPassword = max(byPassword, m.level(u))
		}
	}
	return reach, byPassword
}

// standing is how a person can step up.
type standing struct {
	units *config.Units
	// resetPIN says that a link can be sent for another PIN.
	resetPIN bool
	// suspect says that none of the person's passkeys is taken any more.
	suspect bool
	own     stepUpRecord
	all     []*stepUpMethod
	has     []*stepUpMethod // switched on and set up, the strongest first
}

func (s *Service) readStanding(tx storage.Tx, si *signedIn) (*standing, error) {
	u, err := s.Units(tx)
	if err != nil {
		return nil, err
	}
	st := &standing{units: u, all: s.stepUpMethods()}
	if st.own, err = readStepUp(tx, si.session.PersonID); err != nil {
		return nil, err
	}
	for _, m := range st.all {
		if m.level(u) == 0 {
			continue
		}
		ok, err := m.has(tx, si, &st.own)
		if err != nil {
			return nil, err
		}
		if ok {
			st.has = append(st.has, m)
		}
	}
	to, err := s.resetsPIN(tx, si, st)
	if err != nil {
		return nil, err
	}
	st.resetPIN = to != ""
	keys, err := readPasskeys(tx, si.session.PersonID)
	if err != nil {
		return nil, err
	}
	st.suspect = len(keys.usable()) == 0
	slices.SortStableFunc(st.has, func(a, b *stepUpMethod) int { return cmp.Compare(b.level(u), a.level(u)) })
	return st, nil
}

func (s *Service) standingOf(ctx context.Context, si *signedIn) (st *standing, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		st, err = s.readStanding(tx, si)
		return err
	})
	return st, err
}

// readStepUp returns what a person has set up, perhaps nothing.
func readStepUp(tx storage.Tx, person string) (stepUpRecord, error) {
	rec, err := stepUps.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) {
		return stepUpRecord{}, nil
	}
	return rec, err
}

func putStepUp(tx storage.Tx, person string, own stepUpRecord) error {
	return stepUps.Put(tx, person, own, time.Time{})
}

// reach is the highest level that the person can step up to.
func (st *standing) reach() int { return st.strongest(st.usable()) }

// usable are the methods that are not locked.
func (st *standing) usable() []*stepUpMethod {
	return slices.DeleteFunc(slices.Clone(st.has), func(m *stepUpMethod) bool {
		return m.locked != nil && m.locked(&st.own) || m == &passkeyMethod && st.suspect
	})
}

// mine are the methods that are this person's own.
func (st *standing) mine() []*stepUpMethod {
	return slices.DeleteFunc(slices.Clone(st.has), func(m *stepUpMethod) bool { return m.given })
}

func (st *standing) strongest(list []*stepUpMethod) int {
	if len(list) == 0 {
		return 0
	}
	return list[0].level(st.units)
}

// offers are the methods that reach a level: all of them, or the strongest alone where the configuration says so.
func (st *standing) offers(level int) (out []*stepUpMethod) {
	least := level
	if st.units.StepUp.Strategy == strongestAvailable {
		least = max(least, st.reach())
	}
	for _, m := range st.usable() {
		if m.level(st.units) >= least {
			out = append(out, m)
		}
	}
	return out
}

// setUpLevel is the level that a session needs to set up a method or to remove one: never less than the strongest that the person has,
// locked or not, since whoever knows the password alone would add one of their own.
func (st *standing) setUpLevel() int {
	a := st.units.StepUp.Actions
	own := st.mine()
	if len(own) == 0 && a.AllowSetInitialStepUpMethodEnabled {
		return passwordLevel
	}
	return max(a.SetupStepUpMethodsAuthenticationLevel, st.strongest(own))
}

// settable are the methods that the person can set up on the way to a level.
func (st *standing) settable(level int) (out []*stepUpMethod) {
	own := st.mine()
	if len(own) == 0 && !st.units.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
		return nil
	}
	if len(own) > 0 && st.setUpLevel() > st.reach() {
		return nil
	}
	for _, m := range st.all {
		if m.setUp != "" && m.level(st.units) >= level && !slices.Contains(st.has, m) {
			out = append(out, m)
		}
	}
	return out
}

// can tells whether the person can reach a level.
func (st *standing) can(level int) bool {
	return len(st.offers(level)) > 0 || len(st.settable(level)) > 0 || st.unlocks(level)
}

// unlocks tells whether a link for another PIN helps to get to a level: the one there is would, but is locked.
func (st *standing) unlocks(level int) bool {
	return st.resetPIN && pinMethod.locked(&st.own) && pinMethod.level(st.units) >= level
}

// pick returns the method with this name among those offered, or nil.
func pick(offered []*stepUpMethod, name string) *stepUpMethod {
	for _, m := range offered {
		if m.name == name {
			return m
		}
	}
	return nil
}

// RemoveStepUp takes a method (authenticator, pin, push or passkey: all phones, all passkeys) off a person who cannot use it any more, such as after the loss of a phone. It returns
// ErrNoPerson, and ErrNoMethod where there is nothing to take off. Sessions that the method has raised fall to what is left.
func (s *Service) RemoveStepUp(ctx context.Context, usernameOrID, method string, by Actor) error {
	ev, err := s.newEvents(by.Origin, stepUpRemoved)
	if err != nil {
		return err
	}
	now := s.Now()
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.find(tx, usernameOrID)
		if err != nil {
			return err
		}
		own, err := readStepUp(tx, id)
		if err != nil {
			return err
		}
		switch {
		case method == totpMethod.name && own.TOTP != nil:
			totpMethod.remove(&own)
		case method == pinMethod.name && own.PIN != nil:
			pinMethod.remove(&own)
		case method == pushMethod.name && len(own.Devices) > 0:
			pushMethod.remove(&own)
		case method == passkeyMethod.name:
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
		if err := s.lowerSessions(tx, id, method, ""); err != nil {
			return err
		}
		e := by.did(ev[0], id, method)
		e.Partition = rec.partition()
		return s.Events.Append(tx, e)
	})
}
