package person

import (
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/storage"
)

// StateError says that the password is right, and the person must not use it.
type StateError struct{ State State }

func (e *StateError) Error() string {
	return "identity: the person is " + strings.ToLower(string(e.State))
}

// Stored returns what is stored of an account, or ErrMismatch when its password is not what was verified.
func (a Holder) Stored(tx storage.Tx) (p Record, pw PasswordRecord, err error) {
	if p, err = Records.Get(tx, a.ID); err == nil {
		pw, err = Passwords.Get(tx, a.ID)
	}
	if errors.Is(err, storage.ErrNotFound) || (err == nil && (pw.PHC != a.PHC || p.State == Removed)) {
		return p, pw, ErrMismatch
	}
	return p, pw, err
}

// Missing returns the rules of the configuration that a profile does not meet.
func (p *Profile) Missing(u *config.Units) (out [][]string) {
	if u.Attributes.Verification.EmailRequired && !p.HasEmail(true) {
		out = append(out, []string{config.AttributeEmail})
	}
	for _, rule := range u.Profile.Rules {
		met := len(rule.AnyOf) == 0
		for _, attribute := range rule.AnyOf {
			met = met || p.has(attribute)
		}
		if !met {
			out = append(out, rule.AnyOf)
		}
	}
	return out
}

func (p *Profile) has(attribute string) bool {
	switch attribute {
	case config.AttributeName:
		return p.Name.DisplayName != "" || p.Name.FirstName != "" || p.Name.LastName != ""
	case config.AttributePhone:
		return len(p.PhoneNumbers) > 0
	case config.AttributeBirthDate:
		return p.DateOfBirth != ""
	case config.AttributeEmail:
		return p.HasEmail(false)
	}
	return false
}

func (p *Profile) HasEmail(verified bool) bool {
	for _, e := range p.EmailAddresses {
		if e.Verified || !verified {
			return true
		}
	}
	return false
}

// Unchanged returns what is stored of an account, or ErrMismatch when it is not what was verified.
func (a Holder) Unchanged(tx storage.Tx) (p Record, pw PasswordRecord, err error) {
	if p, err = Records.Get(tx, a.ID); err == nil {
		pw, err = Passwords.Get(tx, a.ID)
	}
	if errors.Is(err, storage.ErrNotFound) || (err == nil && (pw.PHC != a.PHC || p.State != Active || p.Epoch != a.Person.Epoch)) {
		return p, pw, ErrMismatch
	}
	return p, pw, err
}

// Rehash replaces the hash of the password by a new hash of the same password. fresh "": it stays.
func (a Holder) Rehash(tx storage.Tx, pw PasswordRecord, fresh string) error {
	if fresh == "" {
		return nil
	}
	return Passwords.Put(tx, a.ID, PasswordRecord{PHC: fresh, ChangedAt: pw.ChangedAt}, time.Time{})
}
