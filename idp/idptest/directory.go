package idptest

import (
	"context"
	"net/netip"
	"sync"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Directory is a PasswordTaker with the people that the test names. It is safe for concurrent use.
type Directory struct {
	// Groups are OwnGroups, Network is what it serves. The zero Network is every address.
	Groups  []string
	Network netip.Prefix

	mu     sync.Mutex // guards all below
	people map[string]account
	answer func(context.Context) error
	tried  int
}

type account struct {
	password string
	identity idp.Identity
}

var _ idp.PasswordTaker = (*Directory)(nil)

// Put adds or changes a person. Several names can have one identity.
func (d *Directory) Put(name, password string, id idp.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.people == nil {
		d.people = map[string]account{}
	}
	d.people[name] = account{password, id}
}

// Answer replaces what follows an attempt that was counted. nil: the people decide.
func (d *Directory) Answer(fn func(context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = fn
}

// Tried returns how many passwords were tried.
func (d *Directory) Tried() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tried
}

// Parameters implements idp.Provider.
func (*Directory) Parameters() []string { return nil }

// OwnGroups implements idp.PasswordTaker.
func (d *Directory) OwnGroups() []string { return d.Groups }

// Serves implements idp.PasswordTaker.
func (d *Directory) Serves(addr netip.Addr) bool {
	return !d.Network.IsValid() || d.Network.Contains(addr.Unmap())
}

// SignIn implements idp.PasswordTaker.
func (d *Directory) SignIn(ctx context.Context, c idp.Credentials) (*idp.Identity, error) {
	d.mu.Lock()
	who, ok := d.people[c.Username]
	answer := d.answer
	d.mu.Unlock()
	if err := c.Found(who.identity.Subject); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.tried++
	d.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return nil, err
		}
	}
	if !ok || who.password != c.Password {
		return nil, idp.ErrCredentials
	}
	id := who.identity
	return &id, nil
}
