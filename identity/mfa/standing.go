package mfa

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/storage"
)

const strongestAvailable = "STRONGEST_AVAILABLE"

// Standing are the ways in which a person can step up.
type Standing struct {
	Units *settings.Units
	Own   Record
	All   []*Method // that the service has what they need for
	Has   []*Method // switched on and set up, the strongest first, recovery codes last
	// resetPIN says that a link for a new PIN can be sent.
	resetPIN bool
	// suspect says that the person has no passkey that is still accepted, automatic that they have added none themselves.
	suspect, automatic bool
}

// ReadStanding reads how a signed-in person can step up.
func (s *Service) ReadStanding(tx storage.Tx, si *session.Current) (*Standing, error) {
	u, err := s.deps.Units(tx)
	if err != nil {
		return nil, err
	}
	return s.StandingIn(tx, si, u)
}

// StandingOf is ReadStanding in a transaction of its own.
func (s *Service) StandingOf(ctx context.Context, si *session.Current) (st *Standing, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		st, err = s.ReadStanding(tx, si)
		return err
	})
	return st, err
}

// StandingIn is ReadStanding for a request, which has the settings.
func (s *Service) StandingIn(tx storage.Tx, si *session.Current, u *settings.Units) (*Standing, error) {
	st := &Standing{Units: u, All: s.methods()}
	var err error
	if st.Own, err = readRecord(tx, si.Session.PersonID); err != nil {
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
	recovery := st.Recovers() && slices.Contains(st.Has, &recoveryMethod)
	st.Has = slices.DeleteFunc(st.Has, func(m *Method) bool { return m == &recoveryMethod })
	to, err := s.pinResetAddress(tx, si, st)
	if err != nil {
		return nil, err
	}
	st.resetPIN = to != ""
	keys, err := passkey.Read(tx, si.Session.PersonID)
	if err != nil {
		return nil, err
	}
	st.suspect, st.automatic = len(keys.Usable()) == 0, !keys.Chosen()
	slices.SortStableFunc(st.Has, func(a, b *Method) int { return cmp.Compare(b.Level(u), a.Level(u)) })
	if recovery {
		st.Has = append(st.Has, &recoveryMethod)
	}
	return st, nil
}

// readRecord returns what a person has set up. Nothing: the zero value.
func readRecord(tx storage.Tx, personID string) (Record, error) {
	rec, _, err := records.Find(tx, personID)
	return rec, err
}

func putRecord(tx storage.Tx, personID string, own Record) error {
	return records.Put(tx, personID, own, time.Time{})
}

// reach returns the highest level that the person can step up to. Recovery codes count only if nothing else does: they
// must not make other methods count as weak where their passkey is no longer accepted.
func (st *Standing) reach() int { return st.strongest(besidesRecovery(st.usable())) }

// besidesRecovery returns the methods of a list without recovery codes, or the list if it has nothing else.
func besidesRecovery(list []*Method) []*Method {
	if n := len(list) - 1; n > 0 && list[n] == &recoveryMethod {
		return list[:n]
	}
	return list
}

// usable returns the methods that are not locked.
func (st *Standing) usable() []*Method {
	return slices.DeleteFunc(slices.Clone(st.Has), func(m *Method) bool {
		return m.locked != nil && m.locked(&st.Own) || m == &passkeyMethod && st.suspect
	})
}

// personal returns the methods that the person has set up, in contrast to those that administrators give and to
// passkeys that the browser made without a question.
func (st *Standing) personal() []*Method {
	return slices.DeleteFunc(slices.Clone(st.Has), func(m *Method) bool { return m.given || m == &passkeyMethod && st.automatic })
}

func (st *Standing) strongest(list []*Method) int {
	if len(list) == 0 {
		return 0
	}
	return list[0].Level(st.Units)
}

// offers returns the methods that reach a level: all of them, or only the strongest where the settings say so.
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

// SetUpLevel returns the level that a session needs to set up or remove a method. It is never less than that of the
// strongest method that the person has, locked or not: otherwise a stolen password would be enough to add a method.
func (st *Standing) SetUpLevel() int {
	a := st.Units.StepUp.Actions
	personal := st.personal()
	if len(personal) == 0 && a.AllowSetInitialStepUpMethodEnabled {
		return session.PasswordLevel
	}
	return max(a.SetupStepUpMethodsAuthenticationLevel, st.strongest(personal))
}

// HasSecondFactor reports whether the person has set up a method that is switched on. What comes with an address of the
// profile or from administrators is not set up by the person.
func (s *Service) HasSecondFactor(tx storage.Tx, si *session.Current) (bool, error) {
	st, err := s.ReadStanding(tx, si)
	return err == nil && slices.ContainsFunc(st.personal(), func(m *Method) bool { return m.setUp != "" }), err
}

// SecondFactorLevel is the level of a sign-in with a second step.
const SecondFactorLevel = 2

// Protects reports whether the person has set up a method that makes a sign-in more than a password, locked ones
// included: who locks a method by wrong answers must not get in without one.
func (s *Service) Protects(tx storage.Tx, si *session.Current, u *settings.Units) (bool, error) {
	own, err := readRecord(tx, si.Session.PersonID)
	if err != nil {
		return false, err
	}
	for _, m := range s.methods() {
		if m.setUp == "" || m.Level(u) < SecondFactorLevel {
			continue
		}
		has, err := m.has(tx, si, &own)
		if has && err == nil && m == &passkeyMethod {
			var set passkey.Set
			set, err = passkey.Read(tx, si.Session.PersonID)
			has = set.Chosen()
		}
		if has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// Protects is Service.Protects for a person whose methods are read.
func (st *Standing) Protects() bool {
	return slices.ContainsFunc(st.personal(), func(m *Method) bool { return m.setUp != "" && m.Level(st.Units) >= SecondFactorLevel })
}

// SetUpLevel is that of Standing, for a person whose session is not read yet.
func (s *Service) SetUpLevel(tx storage.Tx, si *session.Current) (int, error) {
	st, err := s.ReadStanding(tx, si)
	if err != nil {
		return 0, err
	}
	return st.SetUpLevel(), nil
}

// Settable returns the methods that the person can set up on the way to a level.
func (st *Standing) Settable(level int) (out []*Method) {
	personal := st.personal()
	if len(personal) == 0 && !st.Units.StepUp.Actions.AllowSetInitialStepUpMethodEnabled {
		return nil
	}
	if len(personal) > 0 && st.SetUpLevel() > st.reach() {
		return nil
	}
	for _, m := range st.All {
		if m.setUp != "" && m.Level(st.Units) >= level && !slices.Contains(st.Has, m) {
			out = append(out, m)
		}
	}
	return out
}

// Can reports whether the person can reach a level.
func (st *Standing) Can(level int) bool {
	return len(st.offers(level)) > 0 || len(st.Settable(level)) > 0 || st.unlocks(level)
}

// unlocks reports whether a link for a new PIN helps to reach a level: the PIN gives it, but is locked.
func (st *Standing) unlocks(level int) bool {
	return st.resetPIN && pinMethod.locked(&st.Own) && pinMethod.Level(st.Units) >= level
}

// needSetUp returns how the person can step up, once the browser's sign-in may set up or remove a method; otherwise it
// is webflow.NeedLevel, for a page at ret. Further reads run in the same View.
func (s *Service) needSetUp(q *webflow.Request, ret string, reads ...func(tx storage.Tx) error) (st *Standing, err error) {
	q.Again = ret
	if err := s.deps.Front.NeedLevelAlone(q, session.PasswordLevel, ret); err != nil {
		return nil, err
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		var err error
		if st, err = s.StandingIn(tx, q.SignIn, q.Settings); err != nil {
			return err
		}
		for _, read := range reads {
			if err := read(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return st, s.deps.Front.NeedLevelAlone(q, st.SetUpLevel(), ret)
}

// CheckSetUp returns how the person can step up, or person.ErrMismatch when the session may no longer set up a method.
func (s *Service) CheckSetUp(tx storage.Tx, si *session.Current, now time.Time) (*Standing, error) {
	rec, err := s.deps.Session.Live(tx, si.ID, now)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, person.ErrMismatch
	}
	if err != nil {
		return nil, err
	}
	p, err := person.Records.Get(tx, si.Session.PersonID)
	if err != nil {
		return nil, err
	}
	st, err := s.ReadStanding(tx, si)
	if err == nil && (rec.PersonID != si.Session.PersonID || rec.Level < st.SetUpLevel() || p.State != person.Active || p.Epoch != rec.Epoch) {
		err = person.ErrMismatch
	}
	return st, err
}
