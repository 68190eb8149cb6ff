package identity

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// defaultReturn is where a person goes who came to sign in for nothing in particular.
const defaultReturn = "/account"

// welcome is how somebody became a person; a switch of its own says whether they are welcomed.
type welcome int

const (
	unwelcomed welcome = iota // by the configuration file
	onWeb
	onAPI
	onMigration
)

// enabled tells whether a switch says that such a person is welcomed.
func (w welcome) enabled(u *config.EmailNotifications) bool {
	switch w {
	case onWeb:
		return u.Welcome.OnWebEnabled
	case onAPI:
		return u.Welcome.OnAPIEnabled
	case onMigration:
		return u.Welcome.OnMigrationEnabled
	}
	return false
}

// told is somebody who may be told something.
type told struct {
	id      string
	rec     *personRecord
	profile *Profile
	// verifiedOnly: nobody but a stranger has named the addresses that are not verified.
	verifiedOnly bool
	// stranger: whoever has typed the name may have nothing to do with the address, and would write to anybody through us.
	stranger bool
}

// address returns where a person reads e-mail: the primary address when it is verified, else a verified one, else what whoever keeps the person has
// named. "" when there is none.
func (t told) address() string {
	for _, e := range t.profile.EmailAddresses {
		if e.Primary && e.Verified {
			return e.Value
		}
	}
	if i := slices.IndexFunc(t.profile.EmailAddresses, func(e EmailAddress) bool { return e.Verified }); i >= 0 {
		return t.profile.EmailAddresses[i].Value
	}
	if t.verifiedOnly {
		return ""
	}
	return t.profile.primaryEmail().Value
}

// switches returns what persons hear of. It is empty while there is nothing to send with.
func (s *Service) switches(tx storage.Tx) (*config.EmailNotifications, error) {
	if s.Notify == nil {
		return new(config.EmailNotifications), nil
	}
	u, err := s.Units(tx)
	if err != nil {
		return nil, err
	}
	return &u.EmailNotifications, nil
}

// notice returns what tells somebody something. It has no address when there is none.
func (t told) notice(kind notify.Kind, now time.Time) notify.Notice {
	n := notify.Notice{Kind: kind, To: t.address(), PersonID: t.id, Name: t.profile.Name.DisplayName, At: now, Data: map[string]string{"username": t.rec.Username}}
	if t.stranger {
		n.Name = ""
	}
	if t.profile.PreferredLocale != "" {
		n.Locales = []string{t.profile.PreferredLocale}
	}
	switch kind {
	case notify.Welcome, notify.AttributesUpdated, notify.PhoneNumberUpdated, notify.PasswordUpdated, notify.IdentityCoupled:
		n.Link = defaultReturn
	}
	return n
}

// send sends a notice, unless it has nowhere to go.
func (s *Service) send(tx storage.Tx, n notify.Notice) error {
	if n.To == "" {
		return nil
	}
	return s.Notify.Send(tx, n)
}

// tell sends a notice when its switch, which is only asked while notices can be sent, says so.
func (s *Service) tell(tx storage.Tx, t told, kind notify.Kind, on func(*config.EmailNotifications) bool, now time.Time) error {
	u, err := s.switches(tx)
	if err != nil || !on(u) {
		return err
	}
	return s.send(tx, t.notice(kind, now))
}

// tellChanges tells a person what of their account is another now: at the address as it was, since whoever has changed it may be somebody else.
func (s *Service) tellChanges(tx storage.Tx, id string, was *personRecord, old, now *Profile, password bool, at time.Time) error {
	u, err := s.switches(tx)
	if err != nil {
		return err
	}
	on := u.AttributesUpdate
	before := told{id: id, rec: was, profile: old}
	if before.address() == "" {
		before.profile = now // who had no address is told at the new one
	}
	from, to := old.primaryEmail().Value, now.primaryEmail().Value
	if foldEmail(from) == foldEmail(to) { // a verified address takes the mail from a primary one that is not
		from, to = before.address(), told{id: id, rec: was, profile: now}.address()
	}
	email, phone, rest := foldEmail(from) != foldEmail(to), !samePhones(old, now), !sameBeside(old, now)
	for _, c := range []struct {
		kind            notify.Kind
		happened, wants bool
	}{
		{notify.EmailUpdated, email, on.OnEmailUpdated},
		{notify.PhoneNumberUpdated, phone, on.OnPhoneNumberUpdated},
		{notify.PasswordUpdated, password, on.OnPasswordUpdated},
		{notify.AttributesUpdated, rest, false},
	} {
		if !c.happened || !(c.wants || on.OnAllUpdated) {
			continue
		}
		n := before.notice(c.kind, at)
		if c.kind == notify.EmailUpdated {
			n.Data["address"] = to
		}
		if err := s.send(tx, n); err != nil {
			return err
		}
	}
	return nil
}

func samePhones(a, b *Profile) bool {
	return slices.EqualFunc(a.PhoneNumbers, b.PhoneNumbers, func(x, y PhoneNumber) bool { return x.Value == y.Value && x.Primary == y.Primary })
}

// sameBeside tells whether two profiles are the same but for telephone numbers and the primary address.
func sameBeside(a, b *Profile) bool {
	others := func(p *Profile) Profile {
		c := p.clone()
		c.PhoneNumbers = nil
		c.EmailAddresses = slices.DeleteFunc(c.EmailAddresses, func(e EmailAddress) bool { return e.Primary })
		return c
	}
	x, y := others(a), others(b)
	return sameProfile(&x, &y)
}

// tellCoupled tells a person that an identity at a provider signs them in now.
func (s *Service) tellCoupled(tx storage.Tx, id string, rec *personRecord, providerID string, now time.Time) error {
	u, err := s.switches(tx)
	if err != nil || !u.IdentityCoupledToAccount {
		return err
	}
	prof, err := readProfile(tx, id, rec)
	if err != nil {
		return err
	}
	n := told{id: id, rec: rec, profile: &prof.Profile}.notice(notify.IdentityCoupled, now)
	n.Data["provider"] = s.nameOfProvider(providerID)
	return s.send(tx, n)
}

// blockedEvery is how often at most a person is told of wrong passwords: whoever tries them must not fill a mailbox.
const blockedEvery = 6 * time.Hour

// tellBlocked tells the owner of an account that wrong passwords made it wait.
func (s *Service) tellBlocked(tx storage.Tx, a account, now time.Time) error {
	u, err := s.switches(tx)
	if err != nil || !u.PasswordBlocked || a.id == "" || a.person.State != Active {
		return err
	}
	last, err := noticed.Get(tx, a.id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if now.Before(last.At.Add(blockedEvery)) {
		return nil
	}
	if err := noticed.Put(tx, a.id, noticedRecord{At: now}, now.Add(blockedEvery)); err != nil {
		return err
	}
	prof, err := readProfile(tx, a.id, &a.person)
	if err != nil {
		return err
	}
	return s.send(tx, told{id: a.id, rec: &a.person, profile: &prof.Profile}.notice(notify.PasswordBlocked, now))
}

// before returns what is known of a person whose change they may be told of, as it is before, or nil.
func (s *Service) before(tx storage.Tx, id string, rec *personRecord, kind event.Type) (*Profile, error) {
	u, err := s.switches(tx)
	if err != nil || !hears(u, kind) {
		return nil, err
	}
	prof, err := readProfile(tx, id, rec)
	return &prof.Profile, err
}

// hears tells whether persons hear of what an event of this kind is about.
func hears(u *config.EmailNotifications, kind event.Type) bool {
	switch kind {
	case personBlocked:
		return u.AdministratorAccountBlocked
	case personRemoved:
		return u.AccountRemoved
	case passwordChanged:
		return u.AttributesUpdate.OnPasswordUpdated || u.AttributesUpdate.OnAllUpdated
	}
	return false
}

// tellDone tells a person what whoever keeps the account did to it. prof is what before has returned.
func (s *Service) tellDone(tx storage.Tx, id string, was *personRecord, prof *Profile, kind event.Type, now time.Time) error {
	kinds := map[event.Type]notify.Kind{personBlocked: notify.AccountBlocked, personRemoved: notify.AccountRemoved, passwordChanged: notify.PasswordUpdated}
	u, err := s.switches(tx)
	if err != nil || prof == nil || !hears(u, kind) || was.State == Invited {
		return err
	}
	return s.send(tx, told{id: id, rec: was, profile: prof}.notice(kinds[kind], now))
}

// tellOpened tells a person whom a provider has brought: that there is an account now, or that the provider signs them in to theirs.
func (s *Service) tellOpened(tx storage.Tx, a *answered, f *found, now time.Time) error {
	switch {
	case f.newlyOne:
		return s.tellCoupled(tx, f.id, &f.person, a.provider.ID, now)
	case f.created:
		if err := s.tellUncoupled(tx, a, uncoupled(a, nil), now); err != nil {
			return err
		}
		u, err := s.switches(tx)
		if err != nil || !onWeb.enabled(u) {
			return err
		}
		prof, err := readProfile(tx, f.id, &f.person)
		if err != nil {
			return err
		}
		return s.send(tx, told{id: f.id, rec: &f.person, profile: &prof.Profile, verifiedOnly: true}.notice(notify.Welcome, now))
	}
	return nil
}
