package stepup

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// passkeyOptions are what a browser is asked for. (Web Authentication Level 3 5.1.10 and 5.1.11, the JSON forms)
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

// describe names passkeys to a browser.
func describe(keys []passkeyRecord) (out []passkeyDescriptor) {
	for _, k := range keys {
		out = append(out, passkeyDescriptor{"public-key", encodeBytes(k.Credential), k.Transports})
	}
	return out
}

// UseOptions asks for a passkey of the person, or of anybody when there are no keys.
func (s *Service) UseOptions(challenge []byte, keys []passkeyRecord) string {
	return optionsText(passkeyOptions{
		Challenge: encodeBytes(challenge), Timeout: challengeLife.Milliseconds(), RPID: s.rp.Config.RPID, UserVerification: "required", Allow: describe(keys),
	})
}

func optionsText(o passkeyOptions) string {
	raw, err := json.Marshal(o)
	if err != nil {
		return "{}" // cannot be: texts and numbers alone
	}
	return string(raw)
}

// ChallengeSeconds is for how long a page counts on its challenge: a little less than it is good for, and no more than is left of one that a page
// before has shown.
const ChallengeSeconds = int(challengeLife/time.Second)/2 - 10

// ErrCopied says that a passkey's counter has gone back.
var ErrCopied = &passkeyError{errors.New("the counter of the passkey went back")}

// OwnerOf returns whose a credential is and all passkeys of that person, or nobody.
func (s *Service) OwnerOf(ctx context.Context, credential []byte) (a person.Holder, set passkeySetRecord, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		a, set = person.Holder{}, passkeySetRecord{}
		id, err := passkeyOwners.Get(tx, CredentialKey(credential))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
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

// UsePasskey writes that a passkey has been used and returns the person, or person.ErrMismatch when what was verified holds no more.
func (s *Service) UsePasskey(tx storage.Tx, personID string, key passkeyRecord, now time.Time) (person.Record, error) {
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
