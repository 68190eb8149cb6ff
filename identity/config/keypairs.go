package config

import (
	"reflect"

	"github.com/gatehouse-id/gatehouse/identity/keypair"
	"github.com/gatehouse-id/gatehouse/storage"
)

// KeyPairs returns the key pairs and certificates of the configuration.
func (s *Service) KeyPairs() *keypair.Service { return s.keyPairs }

// keyPairOwner is the configuration as its key pairs see it.
type keyPairOwner struct{ s *Service }

// NewVersion implements keypair.Owner.
func (o keyPairOwner) NewVersion() (write func(tx storage.Tx) error, err error) {
	nonce, err := o.s.nonce()
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx) error {
		_, err := writeVersion(tx, nonce)
		return err
	}, nil
}

// Uses implements keypair.Owner.
func (o keyPairOwner) Uses(tx storage.Tx, id, name string) (places []string, err error) {
	u, err := o.s.Units(tx)
	if err != nil {
		return nil, err
	}
	for _, k := range u.namedKeyPairs() {
		if k.name == id || k.name == name {
			places = append(places, k.at)
		}
	}
	return places, nil
}

// namedKeyPair is the name or id of a key pair, and the member that holds it.
type namedKeyPair struct{ at, name string }

// namedKeyPairs returns the key pairs that login methods name.
func (u *Units) namedKeyPairs() (out []namedKeyPair) {
	u.visit(unitNamed("login_methods"), visitor{value: func(v reflect.Value, p place) {
		if p.tag == "keypair" && v.String() != "" {
			out = append(out, namedKeyPair{p.at, v.String()})
		}
	}})
	return out
}
