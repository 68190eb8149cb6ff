package notify

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Kind is a kind of message to a person. Its texts are the messages mail.<kind>.subject and mail.<kind>.text.
type Kind string

// The kinds of notices.
const (
	Welcome            Kind = "welcome"
	AttributesUpdated  Kind = "attributes_updated"
	EmailUpdated       Kind = "email_updated"
	PhoneNumberUpdated Kind = "phone_number_updated"
	PasswordUpdated    Kind = "password_updated"
	PasswordBlocked    Kind = "password_blocked"
	AccountBlocked     Kind = "account_blocked"
	AccountRemoved     Kind = "account_removed"
	IdentityCoupled    Kind = "identity_coupled"
	StepUpCode         Kind = "step_up_code"
	PINReset           Kind = "pin_reset"
	AccountInvitation  Kind = "account_invitation"
	AddressCode        Kind = "address_code" // proves that the reader owns the address
	ResetLink          Kind = "reset_link"
	ResetNoPassword    Kind = "reset_no_password"
	PasswordReset      Kind = "password_reset"
	SignUpCode         Kind = "sign_up_code"
	SignUpExisting     Kind = "sign_up_existing"
	Activation         Kind = "activation"
	ActivationCode     Kind = "activation_code"
	EmailVerification  Kind = "email_verification"
	PasskeyAdded       Kind = "passkey_added"
	PasskeyRemoved     Kind = "passkey_removed"
	PasskeySuspected   Kind = "passkey_suspected"
	MethodRemoved      Kind = "method_removed" // a second step, by an administrator
	AppPasswordMade    Kind = "app_password_made"
	AccountSeen        Kind = "account_seen" // by an administrator
	AccessGranted      Kind = "access_granted"
	AccessRefused      Kind = "access_refused"
	IDCardValidated    Kind = "id_card_validated"
	IDCardRefused      Kind = "id_card_refused"

	// Test is sent by an administrator, to see that e-mail arrives.
	Test Kind = "test"

	// To operators.
	AccessRequested Kind = "access_requested"
	EventAlert      Kind = "event_alert"
	SignInSettings  Kind = "sign_in_settings"

	// To the organisation of an application.
	AccountUnlinked    Kind = "account_unlinked"
	CouplingUnverified Kind = "coupling_unverified"
	CouplingAmbiguous  Kind = "coupling_ambiguous"
	CouplingUntrusted  Kind = "coupling_untrusted"

	// To the contact of an application.
	QuotaReached Kind = "quota_reached"
)

// toOrganisation reports whether a notice goes to an organisation.
func (k Kind) toOrganisation() bool {
	switch k {
	case AccountUnlinked, CouplingUnverified, CouplingAmbiguous, CouplingUntrusted:
		return true
	}
	return false
}

// Nothing is a notice that is queued like any other and never sent, so the cost of a request does not reveal whether a
// person exists.
const Nothing Kind = "nothing"

// Notice is one message to one person.
type Notice struct {
	Kind Kind   `cbor:"1,keyasint"`
	To   string `cbor:"2,keyasint"` // the bare e-mail address
	// PersonID is for the log. It is empty before the person exists.
	PersonID string `cbor:"3,keyasint,omitempty"`
	// Name is the name in the greeting. It may be empty.
	Name string `cbor:"4,keyasint,omitempty"`
	// Locales are the languages that the person prefers. Empty: the default of the pages.
	Locales []string `cbor:"5,keyasint,omitempty"`
	// At is the time of the cause, taken before the transaction.
	At time.Time `cbor:"6,keyasint"`
	// Data replaces {name} in the messages. It is stored sealed, and shown as text and never as markup.
	Data map[string]string `cbor:"7,keyasint,omitempty"`
	// Link is the target of the button mail.<kind>.action: a path of Gatehouse, such as /account, or the address of a
	// protected site. Without it there is no button.
	Link string `cbor:"8,keyasint,omitempty"`
	// Until is the end of the subject of the notice, such as access to a site. Zero: the notice names no end.
	Until time.Time `cbor:"9,keyasint,omitempty"`
	// Sample says that an administrator sends it as a preview. The message says so first, and nothing has happened.
	Sample bool `cbor:"10,keyasint,omitempty"`
	// Events are the events that an alert reports, in place of {events} in its message.
	Events []Happened `cbor:"11,keyasint,omitempty"`
}

// Happened is an event in an e-mail.
type Happened struct {
	Type string    `cbor:"1,keyasint"`
	Name string    `cbor:"2,keyasint"` // in English, for a type without a message
	At   time.Time `cbor:"3,keyasint"`
	From string    `cbor:"4,keyasint"` // IP address
}

// line describes the event in a language.
func (h Happened) line(words web.Words) string {
	name := h.Name
	if key := "console.kind." + h.Type; words.T(key) != key {
		name = words.T(key)
	}
	return h.At.UTC().Format("2006-01-02 15:04:05 UTC") + " · " + name + " · " + h.From
}

// Sender sends notices. It is safe for concurrent use.
type Sender interface {
	// Send queues a notice in the transaction of its cause, and returns at once. An error is a failure of storage.
	Send(tx storage.Tx, n Notice) error
}
