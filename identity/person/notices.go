package person

import (
	"cmp"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// DefaultReturn is the end of a sign-in that no application asked for.
const DefaultReturn = "/account"

// Welcome is the way in which a person was created. Each way has a setting that says whether they are welcomed.
type Welcome int

// The ways in which persons are created.
const (
	unwelcomed Welcome = iota // by the configuration file
	ReasonWeb
	ReasonAPI
	ReasonMigration
)

// Enabled reports whether the settings say that such a person is welcomed.
func (w Welcome) Enabled(u *settings.EmailNotifications) bool {
	switch w {
	case ReasonWeb:
		return u.Welcome.OnWebEnabled
	case ReasonAPI:
		return u.Welcome.OnAPIEnabled
	case ReasonMigration:
		return u.Welcome.OnMigrationEnabled
	}
	return false
}

// Recipient is a person to whom a notice can be sent.
type Recipient struct {
	ID      string
	Record  *Record
	Profile *Profile
	// VerifiedOnly says that only verified addresses are used, since a stranger can have entered the others.
	VerifiedOnly bool
	// Stranger says that the name can have been entered by someone who does not own the address. It is left out, so
	// strangers cannot send text of their own to other people.
	Stranger bool
}

// Address returns the e-mail address of a person: the primary address if it is verified, else a verified one, else the
// one an administrator or directory entered. "" means that there is no address.
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

// Switches returns the settings of notices to persons. All are off if no e-mail can be sent.
func (s *Service) Switches(tx storage.Tx) (*settings.EmailNotifications, error) {
	if s.deps.Notify == nil {
		return new(settings.EmailNotifications), nil
	}
	u, err := s.deps.Units(tx)
	if err != nil {
		return nil, err
	}
	return &u.EmailNotifications, nil
}

// Notice returns a notice to the recipient. Its address is empty if the recipient has none.
func (t Recipient) Notice(kind notify.Kind, now time.Time) notify.Notice {
	n := notify.Notice{
		Kind: kind, To: t.Address(), PersonID: t.ID, Name: t.Profile.Name.DisplayName, At: now,
		Data: map[string]string{"username": t.Record.Username},
	}
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

// SendNotice sends a notice that has an address.
func (s *Service) SendNotice(tx storage.Tx, n notify.Notice) error {
	if n.To == "" {
		return nil
	}
	return s.deps.Notify.Send(tx, n)
}

// Notify sends a notice if its setting is on.
func (s *Service) Notify(tx storage.Tx, t Recipient, kind notify.Kind, on func(*settings.EmailNotifications) bool, now time.Time) error {
	u, err := s.Switches(tx)
	if err != nil || !on(u) {
		return err
	}
	return s.SendNotice(tx, t.Notice(kind, now))
}

// tellChanges sends the notices of a change of a person to their old address, since an attacker can have made the
// change.
func (s *Service) tellChanges(tx storage.Tx, id string, was *Record, old, now *Profile, password bool, at time.Time) error {
	u, err := s.Switches(tx)
	if err != nil {
		return err
	}
	on := u.AttributesUpdate
	before := Recipient{ID: id, Record: was, Profile: old}
	if before.Address() == "" {
		before.Profile = now // without an old address the new one gets it
	}
	from, to := old.PrimaryEmail().Value, now.PrimaryEmail().Value
	if FoldEmail(from) == FoldEmail(to) { // a verified address is preferred to an unverified primary one
		from, to = before.Address(), Recipient{ID: id, Record: was, Profile: now}.Address()
	}
	email, phone, rest := FoldEmail(from) != FoldEmail(to), !samePhones(old, now), !sameRest(old, now)
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
	return slices.EqualFunc(a.PhoneNumbers, b.PhoneNumbers,
		func(x, y PhoneNumber) bool { return x.Value == y.Value && x.Primary == y.Primary })
}

// sameRest reports whether two profiles differ at most in phone numbers and primary address.
func sameRest(a, b *Profile) bool {
	others := func(p *Profile) Profile {
		c := p.Clone()
		c.PhoneNumbers = nil
		c.EmailAddresses = slices.DeleteFunc(c.EmailAddresses, func(e EmailAddress) bool { return e.Primary })
		return c
	}
	x, y := others(a), others(b)
	return sameProfile(&x, &y)
}

// TellCoupled sends the notice that an identity at a provider was linked, by the name that its owner knows it by.
func (s *Service) TellCoupled(tx storage.Tx, id string, rec *Record, providerID string, of *idp.Identity, now time.Time) error {
	u, err := s.Switches(tx)
	if err != nil || !u.IdentityCoupledToAccount {
		return err
	}
	prof, err := ReadProfile(tx, id, rec)
	if err != nil {
		return err
	}
	n := Recipient{ID: id, Record: rec, Profile: &prof.Profile}.Notice(notify.IdentityCoupled, now)
	n.Data["provider"], n.Data["account"] = s.nameOfProvider(providerID), cmp.Or(of.Username, of.Subject)
	if email, verified := VerifiedEmail(of); verified {
		n.Data["account"] = email
	}
	return s.SendNotice(tx, n)
}

// blockedEvery is the time between two notices of wrong passwords, so an attacker cannot flood a mailbox.
const blockedEvery = 6 * time.Hour

// TellBlocked sends the notice that an account is slowed down after wrong passwords.
func (s *Service) TellBlocked(tx storage.Tx, a Holder, now time.Time) error {
	u, err := s.Switches(tx)
	if err != nil || !u.PasswordBlocked || a.ID == "" || a.Person.State != Active {
		return err
	}
	if due, err := s.noticeDue(tx, a.ID, blockedEvery, now); err != nil || !due {
		return err
	}
	prof, err := ReadProfile(tx, a.ID, &a.Person)
	if err != nil {
		return err
	}
	return s.SendNotice(tx, Recipient{ID: a.ID, Record: &a.Person, Profile: &prof.Profile}.Notice(notify.PasswordBlocked, now))
}

// noticeDue reports whether a notice that is sent at most once in a period is due, and records that it is sent.
func (s *Service) noticeDue(tx storage.Tx, key string, every time.Duration, now time.Time) (bool, error) {
	last, _, err := NoticeTimes.Find(tx, key)
	if err != nil || now.Before(last.At.Add(every)) {
		return false, err
	}
	return true, NoticeTimes.Put(tx, key, NoticeTimeRecord{At: now}, now.Add(every))
}

// before returns the profile before a change whose notice is on, or nil.
func (s *Service) before(tx storage.Tx, id string, rec *Record, kind audit.Type) (*Profile, error) {
	u, err := s.Switches(tx)
	if err != nil || !HearsOf(u, kind) {
		return nil, err
	}
	prof, err := ReadProfile(tx, id, rec)
	return &prof.Profile, err
}

// HearsOf reports whether the notice of an event of this kind is on.
func HearsOf(u *settings.EmailNotifications, kind audit.Type) bool {
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

// tellDone sends the notice of what an administrator did to an account. prof is the result of before.
func (s *Service) tellDone(tx storage.Tx, id string, was *Record, prof *Profile, kind audit.Type, now time.Time) error {
	kinds := map[audit.Type]notify.Kind{
		personBlocked: notify.AccountBlocked, personRemoved: notify.AccountRemoved,
		passwordChanged: notify.PasswordUpdated,
	}
	u, err := s.Switches(tx)
	if err != nil || prof == nil || !HearsOf(u, kind) || was.State == Invited {
		return err
	}
	return s.SendNotice(tx, Recipient{ID: id, Record: was, Profile: prof}.Notice(kinds[kind], now))
}

// UnlinkedPerPerson is the number of notices that an organisation gets before the first pause when one person leaves
// and joins an application again and again.
const UnlinkedPerPerson = 5

// UncoupledEvery is the time between two notices to an organisation of one cause at one provider.
const UncoupledEvery = 6 * time.Hour
