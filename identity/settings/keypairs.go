package settings

import (
	"errors"
	"reflect"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/storage"
)

// KeyPairs returns the key pairs and certificates of the configuration.
func (s *Service) KeyPairs() *keystore.Service { return s.keyPairs }

// keyPairOwner is the configuration as its key pairs see it.
type keyPairOwner struct{ s *Service }

// NewVersion implements keystore.Owner.
func (o keyPairOwner) NewVersion() (write func(tx storage.Tx) error, err error) {
	nonce, err := o.s.nonce()
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx) error {
		_, err := writeVersion(tx, versionRecord{Nonce: nonce})
		return err
	}, nil
}

// Uses implements keystore.Owner.
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

// namedKeyPairs returns the key pairs that login methods name.
func (u *Units) namedKeyPairs() (out []namedKeyPair) {
	u.visit(unitNamed("login_methods"), visitor{value: func(v reflect.Value, p place) {
		if (p.tag == "keypair" || p.tag == "keytab") && v.String() != "" {
			out = append(out, namedKeyPair{p.at, v.String(), p.tag == "keytab"})
		}
	}})
	return out
}
