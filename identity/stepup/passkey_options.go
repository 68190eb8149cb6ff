package stepup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

// passkeyOptions is what we request of a browser. (Web Authentication Level 3 5.1.10 and 5.1.11, the JSON forms)
type passkeyOptions struct {
	Challenge        string              `json:"challenge"`
	Timeout          int64               `json:"timeout"` // milliseconds
	UserVerification string              `json:"userVerification,omitempty"`
	RPID             string              `json:"rpId,omitempty"`
	Allow            []passkeyDescriptor `json:"allowCredentials,omitempty"`

	RP          *passkeyName        `json:"rp,omitempty"`
	User        *passkeyName        `json:"user,omitempty"`
	Parameters  []passkeyParameter  `json:"pubKeyCredParams,omitempty"`
	Selection   *passkeySelection   `json:"authenticatorSelection,omitempty"`
	Attestation string              `json:"attestation,omitempty"`
	Exclude     []passkeyDescriptor `json:"excludeCredentials,omitempty"`
}

type passkeyName struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
}

type passkeyDescriptor struct {
	Type       string   `json:"type"`
	ID         string   `json:"id"`
	Transports []string `json:"transports,omitempty"`
}

type passkeyParameter struct {
	Type string `json:"type"`
	Alg  int64  `json:"alg"`
}

type passkeySelection struct {
	ResidentKey        string `json:"residentKey"`
	RequireResidentKey bool   `json:"requireResidentKey"`
	UserVerification   string `json:"userVerification"`
}

// describe returns how passkeys are described to a browser.
func describe(keys []Passkey) (out []passkeyDescriptor) {
	for _, k := range keys {
		out = append(out, passkeyDescriptor{"public-key", encodeBytes(k.Credential), k.Transports})
	}
	return out
}

// UseOptions returns the request for the use of one of the passkeys, or of any passkey when there are no keys.
func (s *Service) UseOptions(challenge []byte, keys []Passkey) string {
	return optionsText(passkeyOptions{
		Challenge: encodeBytes(challenge), Timeout: challengeLife.Milliseconds(), RPID: s.rp.Config.RPID, UserVerification: "required",
		Allow: describe(keys),
	})
}

// makeOptions returns the request for a new passkey of the person: one that works without a username, on a device that
// has none of theirs.
func (s *Service) makeOptions(si *session.Current, challenge []byte, set *PasskeySet) string {
	var algorithms []passkeyParameter
	for _, p := range passkeyAlgorithms() {
		algorithms = append(algorithms, passkeyParameter{string(p.Type), int64(p.Algorithm)})
	}
	username := si.Person.Username
	return optionsText(passkeyOptions{
		Challenge: encodeBytes(challenge), Timeout: challengeLife.Milliseconds(), Attestation: "none", Parameters: algorithms,
		Exclude:   describe(set.Keys),
		RP:        &passkeyName{ID: s.rp.Config.RPID, Name: s.rp.Config.RPDisplayName},
		User:      &passkeyName{ID: encodeBytes(set.Handle), Name: username, DisplayName: cmp.Or(si.Person.Name, username)},
		Selection: &passkeySelection{ResidentKey: "required", RequireResidentKey: true, UserVerification: "required"},
	})
}

func optionsText(o passkeyOptions) string {
	raw, err := json.Marshal(o)
	if err != nil {
		return "{}" // impossible: there are only texts and numbers
	}
	return string(raw)
}

// ChallengeSeconds is how long a page relies on its challenge: a little less than its life, and no more than what is
// left of one that an earlier page has shown.
const ChallengeSeconds = int(challengeLife/time.Second)/2 - 10

// OwnerOf returns the owner of a credential with all their passkeys, or zero values for an unknown credential.
func (s *Service) OwnerOf(ctx context.Context, credential []byte) (a person.Holder, set PasskeySet, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		a, set = person.Holder{}, PasskeySet{}
		id, ok, err := passkeyOwners.Find(tx, CredentialKey(credential))
		if err != nil || !ok {
			return err
		}
		if a.Person, err = person.Records.Get(tx, id); err != nil {
			return err
		}
		a.ID = id
		set, err = ReadPasskeys(tx, id)
		return err
	})
	return a, set, err
}

// UsePasskey notes the use of a passkey and returns the person, or person.ErrMismatch when what was verified is no
// longer valid.
func (s *Service) UsePasskey(tx storage.Tx, personID string, key Passkey, now time.Time) (person.Record, error) {
	rec, err := person.Records.Get(tx, personID)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && rec.State != person.Active) {
		return rec, person.ErrMismatch
	}
	if err != nil {
		return rec, err
	}
	set, err := ReadPasskeys(tx, personID)
	if err != nil {
		return rec, err
	}
	key.Used = now
	if !set.replace(key) {
		return rec, person.ErrMismatch
	}
	return rec, putPasskeys(tx, personID, set)
}
