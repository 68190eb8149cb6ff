package mfa

import (
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/storage"
)

// SetUp are the methods for higher levels that a person has set up, for administrators.
type SetUp struct {
	Authenticator bool `json:"authenticator"`
	RecoveryCodes int  `json:"recovery_codes"` // unused ones
	PIN           bool `json:"pin"`
	PINLocked     bool `json:"pin_locked,omitempty"` // too many wrong ones: it must be removed and set up again
	Phones        int  `json:"phones"`               // that are asked by push
	Passkeys      int  `json:"passkeys"`
}

// SetUpOf returns what a person has set up.
func (s *Service) SetUpOf(tx storage.Tx, personID string) (SetUp, error) {
	own, err := readRecord(tx, personID)
	if err != nil {
		return SetUp{}, err
	}
	set, err := passkey.Read(tx, personID)
	if err != nil {
		return SetUp{}, err
	}
	return SetUp{
		Authenticator: own.TOTP != nil, RecoveryCodes: len(own.Recovery), PIN: own.PIN != nil,
		PINLocked: own.PIN != nil && own.PIN.Failures >= pinTries, Phones: len(own.Devices), Passkeys: len(set.Keys),
	}, nil
}
