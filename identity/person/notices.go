package person

import (
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// DefaultReturn is where a person goes who came to sign in for nothing in particular.
const DefaultReturn = "/account"

// Welcome is how somebody became a person; a switch of its own says whether they are welcomed.
type Welcome int

const (
	unwelcomed Welcome = iota // by the configuration file
	ReasonWeb
	ReasonAPI
	onMigration
)

// Enabled tells whether a switch says that such a person is welcomed.
func (w Welcome) Enabled(u *config.EmailNotifications) bool {
	switch w {
	case ReasonWeb:
		return u.Welcome.OnWebEnabled
	case ReasonAPI:
		return u.Welcome.OnAPIEnabled
	case onMigration:
		return u.Welcome.OnMigrationEnabled
	}
	return false
}

// Recipient is somebody who may be told something.
type Recipient struct {
	ID      string
	Rec     *Record
	Profile *Profile
	// verifiedOnly: nobody but a stranger has named the addresses that are not verified.
	VerifiedOnly bool
	// stranger: whoever has typed the name may have nothing to do with the address, and would write to anybody through us.
	Stranger bool
}

// Address returns where a person reads e-mail: the primary address when it is verified, else a verified one, else what whoever keeps the person has
// named. "" when there is none.
func (t Recipient) Address() string {
	for _, e := range t.Profile.EmailAddresses {
		if e.Primary && e.Verified {
			return e.Value
		}
	}
	if i := slices.IndexFunc(t.Profile.EmailAddresses, func(e EmailAddress) bool { return e.Verified }); i >= 0 {
		return t.Profile.EmailAddresses[i].Value
	}
	if t.VerifiedOnly {
		return ""
	}
	return t.Profile.PrimaryEmail().Value
}

// Switches returns what persons hear of. It is empty while there is nothing to send with.
func (s *Service) Switches(tx storage.Tx) (*config.EmailNotifications, error) {
	if s.notify == nil {
		return new(config.EmailNotifications), nil
	}
	u, err := s.units(tx)
	if err != nil {
		return nil, err
	}
	return &u.EmailNotifications, nil
}

// Notice returns what tells somebody something. It has no address when there is none.
func (t Recipient) Notice(kind notify.Kind, now time.Time) notify.Notice {
	n := notify.Notice{Kind: kind, To: t.Address(), PersonID: t.ID, Name: t.Profile.Name.DisplayName, At: now, Data: map[string]string{"username": t.Rec.Username}}
	if t.Stranger {
		n.Name = ""
	}
	if t.Profile.PreferredLocale != "" {
		n.Locales = []string{t.Profile.PreferredLocale}
	}
	switch kind {
	case notify.Welcome, notify.AttributesUpdated, notify.PhoneNumberUpdated, notify.PasswordUpdated, notify.IdentityCoupled:
		n.Link = DefaultReturn
	}
	return n
}

// SendNotice sends a notice, unless it has nowhere to go.
func (s *Service) SendNotice(tx storage.Tx, n notify.Notice) error {
	if n.To == "" {
		return nil
	}
	return s.notify.Send(tx, n)
}

// Notify sends a notice when its switch, which is only asked while notices can be sent, says so.
func (s *Service) Notify(tx storage.Tx, t Recipient, kind notify.Kind, on func(*config.EmailNotifications) bool, now time.Time) error {
	u, err := s.Switches(tx)
	if err != nil || !on(u) {
		return err
	}
	return s.SendNotice(tx, t.Notice(kind, now))
}

// TellChanges tells a person what of their account is another now: at the address as it was, since whoever has changed it may be somebody else.
func (s *Service) TellChanges(tx storage.Tx, id string, was *Record, old, now *Profile, password bool, at time.Time) error {
	u, err := s.Switches(tx)
	if err != nil {
		return err
	}
	on := u.AttributesUpdate
	before := Recipient{ID: id, Rec: was, Profile: old}
	if before.Address() == "" {
		before.Profile = now // who had no address is told at the new one
	}
	from, to := old.PrimaryEmail().Value, now.PrimaryEmail().Value
	if FoldEmail(from) == FoldEmail(to) { // a verified address takes the mail from a primary one that is not
		from, to = before.Address(), Recipient{ID: id, Rec: was, Profile: now}.Address()
	}
	email, phone, rest := FoldEmail(from) != FoldEmail(to), !samePhones(old, now), !sameBeside(old, now)
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
		n := before.Notice(c.kind, at)
		if c.kind == notify.EmailUpdated {
			n.Data["address"] = to
		}
		if err := s.SendNotice(tx, n); err != nil {
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
		c := p.Clone()
		c.PhoneNumbers = nil
		c.EmailAddresses = slices.DeleteFunc(c.EmailAddresses, func(e EmailAddress) bool { return e.Primary })
		return c
	}
	x, y := others(a), others(b)
	return sameProfile(&x, &y)
}

// TellCoupled tells a person that an identity at a provider signs them in now.
func (s *Service) TellCoupled(tx storage.Tx, id string, rec *Record, providerID string, now time.Time) error {
	u, err := s.Switches(tx)
	if err != nil || !u.IdentityCoupledToAccount {
		return err
	}
	prof, err := ReadProfile(tx, id, rec)
	if err != nil {
		return err
	}
	n := Recipient{ID: id, Rec: rec, Profile: &prof.Profile}.Notice(notify.IdentityCoupled, now)
	n.Data["provider"] = s.nameOfProvider(providerID)
	return s.SendNotice(tx, n)
}

// blockedEvery is how often at most a person is told of wrong passwords: whoever tries them must not fill a mailbox.
const blockedEvery = 6 * time.Hour

// TellBlocked tells the owner of an account that wrong passwords made it wait.
func (s *Service) TellBlocked(tx storage.Tx, a Holder, now time.Time) error {
	u, err := s.Switches(tx)
	if err != nil || !u.PasswordBlocked || a.ID == "" || a.Person.State != Active {
		return err
	}
	last, err := NoticeTimes.Get(tx, a.ID)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if now.Before(last.At.Add(blockedEvery)) {
		return nil
	}
	if err := NoticeTimes.Put(tx, a.ID, NoticeTimeRecord{At: now}, now.Add(blockedEvery)); err != nil {
		return err
	}
	prof, err := ReadProfile(tx, a.ID, &a.Person)
	if err != nil {
		return err
	}
	return s.SendNotice(tx, Recipient{ID: a.ID, Rec: &a.Person, Profile: &prof.Profile}.Notice(notify.PasswordBlocked, now))
}

// before returns what is known of a person whose change they may be told of, as it is before, or nil.
func (s *Service) before(tx storage.Tx, id string, rec *Record, kind event.Type) (*Profile, error) {
	u, err := s.Switches(tx)
	if err != nil || !HearsOf(u, kind) {
		return nil, err
	}
	prof, err := ReadProfile(tx, id, rec)
	return &prof.Profile, err
}

// HearsOf tells whether persons hear of what an event of this kind is about.
func HearsOf(u *config.EmailNotifications, kind event.Type) bool {
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
func (s *Service) tellDone(tx storage.Tx, id string, was *Record, prof *Profile, kind event.Type, now time.Time) error {
	kinds := map[event.Type]notify.Kind{personBlocked: notify.AccountBlocked, personRemoved: notify.AccountRemoved, passwordChanged: notify.PasswordUpdated}
	u, err := s.Switches(tx)
	if err != nil || prof == nil || !HearsOf(u, kind) || was.State == Invited {
		return err
	}
	return s.SendNotice(tx, Recipient{ID: id, Rec: was, Profile: prof}.Notice(kinds[kind], now))
}
