// Package passkey stores the passkeys of people and verifies their assertions. The pages that add and use them are in
// packages mfa and identity.
package passkey

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Most is the maximum number of passkeys of a person.
const Most = 20

// HandleBytes is the length of a user handle, which is random, so it says nothing about the person. (Web Authentication
// Level 3 14.6.1)
const HandleBytes = 32

const (
	maxAnswer = 16 << 10 // bytes of a browser's answer
	// maxCredentialID and maxPublicKey bound what is stored of a passkey, in bytes. (Web Authentication Level 3 4,
	// credential id)
	maxCredentialID = 1023
	maxPublicKey    = 2048
)

// Service verifies passkeys. It is safe for concurrent use.
type Service struct {
	store  storage.Store
	now    func() time.Time
	random io.Reader
	rp     *webauthn.WebAuthn // nil: they are switched off

	upgrades bool
	related  []byte
}

// Config is the operator's configuration of passkeys.
type Config struct {
	// Off switches them off. They are on where the issuer is Possible.
	Off bool
	// RPID is the relying party, a host name. Default: the host of the issuer.
	RPID string
	// Related are the other origins whose pages browsers let use the passkeys of this relying party.
	Related []string
	// NoUpgrade makes none after a sign-in with a password.
	NoUpgrade bool
}

// New returns a service for the issuer, whose pages have a name.
func New(cfg Config, issuer, name string, store storage.Store, now func() time.Time, random io.Reader) (s *Service, err error) {
	s = &Service{store: store, now: now, random: random, upgrades: !cfg.NoUpgrade}
	if !cfg.Off && Possible(issuer) {
		s.rp, err = newRelyingParty(cfg.RPID, issuer, name)
	}
	if err == nil && s.On() && len(cfg.Related) > 0 {
		s.related, err = relatedDocument(append([]string{s.rp.Config.RPOrigins[0]}, cfg.Related...))
	}
	return s, err
}

// relatedDocument returns the document that lists origins for browsers. (Web Authentication Level 3 5.11)
func relatedDocument(origins []string) ([]byte, error) {
	doc, err := protocol.NewRelatedOrigins(origins...)
	if err != nil {
		return nil, fmt.Errorf("passkey_origins: browsers read at most %d registrable names: %w", protocol.MaximumRelatedOriginLabels, err)
	}
	return doc.Bytes()
}

// CheckOrigin checks one of the related origins.
func CheckOrigin(o string) error {
	u, err := url.Parse(o)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || o != "https://"+u.Host || o != strings.ToLower(o) ||
		strings.Contains(o, "*") {
		return fmt.Errorf("%q is no origin: write https:// and a host in lower case, without a path", o)
	}
	return nil
}

// CheckRPID checks a host name that stands for the relying party.
func CheckRPID(host string) error {
	if net.ParseIP(host) != nil || protocol.ValidateRPID(host) != nil || strings.ToLower(host) != host {
		return fmt.Errorf("%q is no host name of several parts in lower case", host)
	}
	return nil
}

// Related returns the document at /.well-known/webauthn, nil where there are no related origins.
func (s *Service) Related() []byte { return s.related }

// Upgrades reports whether a passkey is made after a sign-in with a password, where the browser does so without asking.
func (s *Service) Upgrades() bool { return s.On() && s.upgrades }

// Possible reports whether browsers let the pages of an issuer use passkeys: only with https, or on localhost, and
// never where the host is an IP address, which cannot be a relying party id. (Web Authentication Level 3 5.1.2)
func Possible(issuer string) bool {
	u, err := url.Parse(issuer)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if net.ParseIP(host) != nil || protocol.ValidateRPID(host) != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || strings.HasSuffix(host, ".localhost"))
}

// newRelyingParty returns what verifies the answers of passkeys, from the origin of the issuer only: answers to related
// origins are for the servers there.
func newRelyingParty(id, issuer, name string) (*webauthn.WebAuthn, error) {
	u, err := url.Parse(strings.ToLower(issuer))
	if err != nil {
		return nil, err
	}
	if (u.Scheme == "https" && u.Port() == "443") || (u.Scheme == "http" && u.Port() == "80") {
		u.Host = u.Hostname() // as browsers write an origin
	}
	rp, err := webauthn.New(&webauthn.Config{
		RPID: cmp.Or(id, u.Hostname()), RPDisplayName: name, RPOrigins: []string{u.Scheme + "://" + u.Host},
		// We neither request nor read extensions, but some password managers send them all the same.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
	if err != nil {
		return nil, fmt.Errorf("passkeys: %w", err)
	}
	return rp, nil
}

// On reports whether passkeys are switched on.
func (s *Service) On() bool { return s.rp != nil }

// signatures are the signatures that passkeys may make: ES256, EdDSA with Ed25519, RS256.
func signatures() []protocol.CredentialParameter {
	var out []protocol.CredentialParameter
	for _, alg := range []webauthncose.COSEAlgorithmIdentifier{webauthncose.AlgES256, webauthncose.AlgEdDSA, webauthncose.AlgRS256} {
		out = append(out, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: alg})
	}
	return out
}

// owner is a person as the library sees one.
type owner struct{ set *Set }

func (o owner) WebAuthnID() []byte { return o.set.Handle }

func (o owner) WebAuthnName() string { return "" }

func (o owner) WebAuthnDisplayName() string { return "" }

func (o owner) WebAuthnCredentials() []webauthn.Credential {
	out := make([]webauthn.Credential, len(o.set.Keys))
	for i, k := range o.set.Keys {
		out[i] = webauthn.Credential{
			ID: k.Credential, PublicKey: k.PublicKey, Flags: webauthn.CredentialFlags{BackupEligible: k.BackupEligible, BackupState: k.BackedUp},
			Authenticator: webauthn.Authenticator{SignCount: k.SignCount},
		}
	}
	return out
}

// Find returns the index of a credential in the set, or -1.
func (p *Set) Find(credential []byte) int {
	for i, k := range p.Keys {
		if bytes.Equal(k.Credential, credential) {
			return i
		}
	}
	return -1
}

// ByID returns the index of the passkey with this id, or -1.
func (p *Set) ByID(id string) int {
	for i, k := range p.Keys {
		if k.ID == id {
			return i
		}
	}
	return -1
}

// Usable returns the passkeys that are accepted.
func (p *Set) Usable() (out []Passkey) {
	for _, k := range p.Keys {
		if !k.Suspect {
			out = append(out, k)
		}
	}
	return out
}

// Chosen reports whether the person has added a passkey themselves. One that their browser made without a question
// signs them in, but asks nothing of them where they have it not: it is no second factor.
func (p *Set) Chosen() bool {
	return slices.ContainsFunc(p.Keys, func(k Passkey) bool { return !k.Automatic })
}

// CredentialKey returns the storage key of a credential id, which is unique across all persons.
func CredentialKey(credential []byte) string { return secret.Hash(string(credential)) }

func encodeBytes(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// ReadAssertion parses a browser's answer about a passkey that it has used. It verifies nothing.
func ReadAssertion(answer string) (*protocol.ParsedCredentialAssertionData, error) {
	if len(answer) > maxAnswer {
		return nil, Refuse("the answer is too large")
	}
	a, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer))
	if err != nil {
		return nil, refused(err)
	}
	if len(a.RawID) == 0 || len(a.RawID) > maxCredentialID {
		return nil, Refuse("the length of the credential id is invalid")
	}
	return a, nil
}

// Verify checks an answer to a challenge against the passkeys of a person, with user verification. named says
// that the browser was told whose passkeys to use, so the answer need not say so. It returns the passkey as it is now;
// copied says that its counter has gone back, so there may be a copy of it. (Web Authentication Level 3 7.2)
func (s *Service) Verify(
	set *Set, challenge []byte, a *protocol.ParsedCredentialAssertionData, named bool,
) (key Passkey, copied bool, err error) {
	of := owner{set}
	session := webauthn.SessionData{Challenge: encodeBytes(challenge), UserVerification: protocol.VerificationRequired}
	var c *webauthn.Credential
	if named {
		session.UserID = set.Handle
		c, err = s.rp.ValidateLogin(of, session, a)
	} else {
		_, c, err = s.rp.ValidatePasskeyLogin(func(_, _ []byte) (webauthn.User, error) { return of, nil }, session, a)
	}
	if err != nil {
		return key, false, refused(err)
	}
	key = set.Keys[set.Find(c.ID)]
	if key.Suspect {
		return key, false, Refuse("the passkey is not accepted since its counter went back")
	}
	key.SignCount, key.BackedUp = c.Authenticator.SignCount, c.Flags.BackupState
	return key, c.Authenticator.CloneWarning, nil
}

// Attest checks a browser's answer about a passkey that it has made, with user verification unless it made the passkey
// by itself (upgrade). We demand nothing of the maker of the device, so the attestation is ignored. (Web Authentication
// Level 3 7.1)
func (s *Service) Attest(set *Set, challenge []byte, answer string, upgrade bool) (key Passkey, err error) {
	if len(answer) > maxAnswer {
		return key, Refuse("the answer is too large")
	}
	a, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer))
	if err != nil {
		return key, refused(err)
	}
	o := &a.Response.AttestationObject
	o.Format, o.AttStatement, o.SubStatements = string(protocol.AttestationFormatNone), nil, nil
	session := webauthn.SessionData{
		Challenge: encodeBytes(challenge), UserID: set.Handle, UserVerification: protocol.VerificationRequired, CredParams: signatures(),
	}
	if upgrade {
		session.UserVerification, session.Mediation = protocol.VerificationPreferred, protocol.MediationConditional
	}
	c, err := s.rp.CreateCredential(owner{set}, session, a)
	if err != nil {
		return key, refused(err)
	}
	if len(c.ID) == 0 || len(c.ID) > maxCredentialID || len(c.PublicKey) > maxPublicKey {
		return key, Refuse("the passkey is too large")
	}
	key = Passkey{
		Credential: c.ID, PublicKey: c.PublicKey, SignCount: c.Authenticator.SignCount, BackupEligible: c.Flags.BackupEligible,
		BackedUp: c.Flags.BackupState,
		Model:    c.Authenticator.AAGUID, Automatic: upgrade,
	}
	for _, t := range c.Transport {
		if len(key.Transports) < 8 && person.IsText(string(t), 32) {
			key.Transports = append(key.Transports, string(t))
		}
	}
	return key, nil
}
