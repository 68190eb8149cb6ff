package federation

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// providerTimeout is the maximum time that a provider may keep a browser waiting by default.
const providerTimeout = 5 * time.Second

// Provider is an identity provider other than the service itself.
type Provider struct {
	ID   string // as clients and the parameter idp name it
	Name string // for people, in events. Default: the id
	// Disabled providers sign no one in.
	Disabled bool
	// Source implements one of the interfaces of idp in addition to idp.Provider.
	Source idp.Provider
	// Path is the first part of the provider's endpoints, saml, oidc or kerberos. Empty: it has no endpoints.
	Path string
	// CoupleEmail couples an identity with the person who has the same verified e-mail address.
	CoupleEmail bool
	// Domains are e-mail domains, in lower case, whose usernames lead to the provider. It vouches for no addresses but
	// theirs. Empty: for any.
	Domains []string
	// Timeout is the maximum duration of Begin and Finish. Default: 5 seconds
	Timeout time.Duration
	// Managed providers are those of the configuration API: a client that may use the service itself may use them.
	Managed bool
	// Administrators says that people with a role in the admin console can sign in by a managed provider. By one of the
	// configuration file they can.
	Administrators bool
	// VerifiesEmail says that the provider's addresses belong to its people, whatever it says itself.
	VerifiesEmail bool
	// Activates says that a sign-in at the provider activates the account.
	Activates bool
	// Synchronise writes the provider's details of a person into the profile at each sign-in.
	Synchronise bool
	// Editable are the details that the person may change all the same: the profile keeps what it has of them.
	Editable []string
	// Custom are the details that become custom attributes of the person, of the same names.
	Custom []string
	// Excluded are details that are dropped, unless a mapping of the operator makes them.
	Excluded []string
	// Assurance is the identity assurance level of everybody who signs in by the provider. 0: it assures nothing.
	Assurance int
	// Migrates says that people move here from the provider: it is asked about the password of someone who is unknown
	// here. A directory then signs no one in on a page of its own.
	Migrates bool
	// Moving says how newcomers from the provider get at the accounts that they have.
	Moving Moving
}

// Member is a provider of a Registry, ready for use. One of Reader, redirector and taker is not nil.
type Member struct {
	Provider

	Reader     idp.RequestReader
	redirector idp.Redirector
	taker      idp.PasswordTaker
	asker      idp.PasswordAsker // nil: it cannot be asked about passwords
	challenger idp.Challenger    // nil: its redirector sends the browser elsewhere
	parameters []string
	// Phone says that the person's phone signs in, which is somewhere else than at a provider. (package qrlogin)
	Phone bool
}

// admitsRoles reports whether people with a role in the admin console can sign in by the provider.
func (m *Member) admitsRoles() bool { return !m.Managed || m.Administrators }

// Untrusted names the provider, as audit.Actor.Vouched does, if it signs in no one with a role in the admin console:
// what it says of a person, and what is done in its sessions, is then no one's who has a role. "" for others.
func (m *Member) Untrusted() string {
	if m.admitsRoles() {
		return ""
	}
	return "the login method " + m.Name
}

// asks reports whether people choose the provider on a page, and are sent there or asked for their password there.
func (m *Member) asks() bool { return m.links() || m.Phone }

// links reports whether people can have an account at the provider, and link it.
func (m *Member) links() bool { return m.redirector != nil || m.taker != nil && !m.Migrates }

// Phone is the Source of a login method by which a phone signs people in that they have signed in on before. There is
// no provider: the method has a place among them, so clients name it like the others.
type Phone struct{}

// Parameters implements idp.Provider.
func (Phone) Parameters() []string { return nil }

// PhonePath is the page that shows a code for a phone.
const PhonePath = "/sign-in/phone"

// PhoneURL is that page for a flow and a login method, "" for the service's own.
func PhoneURL(flow, method string) string {
	v := url.Values{"flow": {flow}}
	if method != "" {
		v.Set("idp", method)
	}
	return PhonePath + "?" + v.Encode()
}

// newMember returns a provider ready for use, if its source can do what a sign-in needs.
func newMember(p Provider) (*Member, error) {
	if p.Source == nil {
		return nil, fmt.Errorf("identity: the provider %q has no source", p.ID)
	}
	m := &Member{Provider: p, parameters: p.Source.Parameters()}
	if m.Name == "" {
		m.Name = m.ID
	}
	if m.Timeout <= 0 {
		m.Timeout = providerTimeout
	}
	m.Reader, _ = p.Source.(idp.RequestReader)
	m.redirector, _ = p.Source.(idp.Redirector)
	m.taker, _ = p.Source.(idp.PasswordTaker)
	m.asker, _ = p.Source.(idp.PasswordAsker)
	if m.Migrates && !m.canMigrate() {
		return nil, fmt.Errorf("identity: the provider %q cannot be asked about passwords", p.ID)
	}
	m.challenger, _ = p.Source.(idp.Challenger)
	_, m.Phone = p.Source.(Phone)
	if m.Reader == nil && !m.asks() && !m.Migrates {
		return nil, fmt.Errorf("identity: the provider %q can do nothing that a sign-in needs", p.ID)
	}
	return m, nil
}

// Once returns the function that a provider marks with what it has used. Each provider has its own keys.
func Once(store storage.Store, now func() time.Time, providerID string) func(ctx context.Context, key string, until time.Time) error {
	return func(ctx context.Context, key string, until time.Time) error {
		if !until.After(now()) {
			return nil // the caller refuses what has expired
		}
		return store.Update(ctx, func(tx storage.Tx) error { return OnceIn(tx, providerID, key, until) })
	}
}

// OnceIn marks what a provider has used within a transaction, or returns idp.ErrReplayed.
func OnceIn(tx storage.Tx, providerID, key string, until time.Time) error {
	err := onces.Create(tx, storage.Key(providerID, secret.Hash(key)), onceRecord{Until: until}, until.Add(session.CollectAfter))
	if errors.Is(err, storage.ErrExists) {
		return idp.ErrReplayed
	}
	return err
}
