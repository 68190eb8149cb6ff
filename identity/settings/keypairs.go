package settings

import (
	"context"
	"errors"
	"reflect"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/storage"
)

// KeyPairs returns the key pairs and certificates of the configuration.
func (s *Service) KeyPairs() *keystore.Service { return s.keyPairs }

// keyPairOwner is the configuration as its key pairs see it.
type keyPairOwner struct{ s *Service }

// Change implements keystore.Owner. A key pair that a login method names decides who signs in, as the method does: the
// owners are told of other keys, and for a method that signs in administrators, an owner alone gives them.
func (o keyPairOwner) Change(ctx context.Context, by audit.Actor) (keystore.Finish, error) {
	rights, _ := ctx.Value(rightsKey{}).(Rights)
	nonce, err := o.s.nonce()
	if err != nil {
		return nil, err
	}
	told, err := o.s.events.By(signInUpdated, by)
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx, replaced ...keystore.Named) error {
		paths, err := o.permit(tx, rights, replaced)
		if err != nil {
			return err
		}
		if _, err := writeVersion(tx, versionRecord{Nonce: nonce}); err != nil {
			return err
		}
		return o.s.tellOwners(tx, told, by, paths)
	}, nil
}

// permit returns those of the key pairs that login methods name, as paths, or an error if the rights do not cover them.
func (o keyPairOwner) permit(tx storage.Tx, rights Rights, replaced []keystore.Named) (paths []string, err error) {
	if len(replaced) == 0 {
		return nil, nil
	}
	u, err := o.s.Units(tx)
	if err != nil {
		return nil, err
	}
	for _, pair := range replaced {
		named := false
		path := "key_pairs." + pair.Name
		for i := range u.LoginMethods.LoginMethods {
			m := &u.LoginMethods.LoginMethods[i]
			if !m.names(pair) {
				continue
			}
			if named = true; rights < Owner && m.Removable && m.AdministratorsEnabled {
				return nil, refuseOrdinary(path)
			}
		}
		if named {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// Uses implements keystore.Owner.
func (o keyPairOwner) Uses(tx storage.Tx, id, name string) (places []string, err error) {
	u, err := o.s.Units(tx)
	if err != nil {
		return nil, err
	}
	for _, k := range u.namedKeyPairs() {
		if k.is(keystore.Named{ID: id, Name: name}) {
			places = append(places, k.at)
		}
	}
	return places, nil
}

// checkKeyPairs demands that the key pairs which login methods name exist, and have a private key where one is needed.
// A method of the Caddyfile does not block changes of others by the lack of one.
func (s *Service) checkKeyPairs(tx storage.Tx, next *Units) error {
	for _, k := range next.namedKeyPairs() {
		use := keystore.Public
		if k.tickets {
			use = keystore.Tickets
		}
		if err := s.checkKeyPair(tx, k, use); err != nil {
			return err
		}
	}
	for i := range next.LoginMethods.LoginMethods {
		m := &next.LoginMethods.LoginMethods[i]
		if s.fixed(m.ID) != nil {
			continue
		}
		for _, k := range m.privateKeys() {
			if k.name == "" {
				continue
			}
			k.at = "login_methods.login_methods[" + strconv.Itoa(i) + "]." + k.at
			if err := s.checkKeyPair(tx, k, keystore.Private); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) checkKeyPair(tx storage.Tx, k namedKeyPair, use keystore.Use) error {
	err := s.keyPairs.CheckNamed(tx, k.name, use)
	switch {
	case errors.Is(err, keystore.ErrKind) && use == keystore.Tickets:
		return invalid(k.at, coded.New("not_keytab", "the key pair is not of the type KEYTAB"))
	case errors.Is(err, keystore.ErrKind):
		return invalid(k.at, coded.New("keytab", "the key pair is a KEYTAB"))
	case errors.Is(err, keystore.ErrUnknown):
		return invalid(k.at, coded.New("no_key_pair", "there is no such key pair"))
	case errors.Is(err, keystore.ErrNoPrivateKey):
		return invalid(k.at, coded.New("no_private_key", "the key pair has no private key, which signing and decryption need"))
	}
	return err
}

// privateKeys returns the key pairs that an enabled method signs, decrypts or authenticates with, by its members. An
// empty name is Gatehouse's own, or none.
func (m *LoginMethod) privateKeys() (out []namedKeyPair) {
	if !m.Enabled {
		return nil
	}
	if a := m.Apple; a != nil {
		out = append(out, namedKeyPair{at: "apple_attributes.signing_key_id", name: a.SigningKeyID})
	}
	if o := m.OIDC; o != nil && (o.ClientAuthenticationMethod == "PRIVATE_KEY_JWT" || o.IDTokenEncryptionRequired ||
		o.UserInfoEncryptionRequired) {
		out = append(out, namedKeyPair{at: "open_id_connect_attributes.signing_key_id", name: o.SigningKeyID})
	}
	if e := m.EIDAS; e != nil {
		out = append(out, namedKeyPair{at: "eidas_attributes.signing_key_id", name: e.SigningKeyID},
			namedKeyPair{at: "eidas_attributes.encryption_key_id", name: e.EncryptionKeyID})
	}
	return append(out, namedKeyPair{at: "saml_mutual_ssl_tls_attributes.client_key_pair_id", name: m.SAMLMutualTLS.ClientKeyPairID})
}

// namedKeyPair is the name or id of a key pair, and the member that holds it.
type namedKeyPair struct {
	at, name string
	tickets  bool // the member wants a keytab
}

// is reports whether k names a key pair, by its id or name.
func (k namedKeyPair) is(pair keystore.Named) bool { return k.name == pair.ID || k.name == pair.Name }

// namedKeyPairs returns the key pairs that login methods name.
func (u *Units) namedKeyPairs() (out []namedKeyPair) {
	u.visit(unitNamed("login_methods"), ofKeyPairs(func(k namedKeyPair) { out = append(out, k) }))
	return out
}

// names reports whether a method names a key pair.
func (m *LoginMethod) names(pair keystore.Named) (found bool) {
	of := ofKeyPairs(func(k namedKeyPair) { found = found || k.is(pair) })
	of.visit(reflect.ValueOf(m), place{})
	return found
}

// ofKeyPairs calls fn for each member that names a key pair.
func ofKeyPairs(fn func(namedKeyPair)) visitor {
	return visitor{value: func(v reflect.Value, p place) {
		if (p.tag == "keypair" || p.tag == "keytab") && v.String() != "" {
			fn(namedKeyPair{p.at, v.String(), p.tag == "keytab"})
		}
	}}
}
