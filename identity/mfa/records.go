package mfa

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of step-ups and their methods.
var (
	records       = storage.NewTable[Record]("identity_step_up")                   // person id
	totpSetUps    = storage.NewTable[totpSetUpRecord]("identity_step_up_new_totp") // session id
	smsSetUps     = storage.NewTable[smsSetUpRecord]("identity_step_up_new_sms")   // session id
	pushEnrols    = storage.NewTable[pushEnrolRecord]("identity_step_up_new_push") // session id
	pushEnrolKeys = storage.NewTable[string]("identity_push_enrol_key")            // hash of the link's token; the value is the session id
	prompts       = storage.NewTable[promptRecord]("identity_prompt")              // hash of the flow id, session id
	promptIDs     = storage.NewTable[string]("identity_prompt_id")                 // id of the prompt; the value is its key
)

// Record are the methods that a person has set up to reach higher levels, and the one that they used last.
type Record struct {
	Preferred string      `cbor:"1,keyasint,omitempty"`
	TOTP      *totpRecord `cbor:"2,keyasint,omitempty"`
	Recovery  []string    `cbor:"3,keyasint,omitempty"` // hashes of the unused codes
	PIN       *pinRecord  `cbor:"4,keyasint,omitempty"`
	NoSMS     bool        `cbor:"5,keyasint,omitempty"` // the person wants no codes by text message

	Devices []pushDeviceRecord `cbor:"6,keyasint,omitempty"`
	Fixed   bool               `cbor:"7,keyasint,omitempty"` // the person chose Preferred
	// Used is the time of the last use of a method, by its name, where the method has no record of its own.
	Used map[string]time.Time `cbor:"8,keyasint,omitempty"`
}

// totpRecord is the secret that we share with an authenticator app.
type totpRecord struct {
	Sealed   []byte    `cbor:"1,keyasint"`
	LastStep int64     `cbor:"2,keyasint"` // time step of the last code that was accepted; no code up to it is accepted again
	Since    time.Time `cbor:"3,keyasint"`
}

// pinRecord is the slow hash of a PIN, sealed.
type pinRecord struct {
	Sealed   []byte    `cbor:"1,keyasint"`
	Failures int       `cbor:"2,keyasint,omitempty"` // in a row
	Since    time.Time `cbor:"3,keyasint"`
	Used     time.Time `cbor:"4,keyasint,omitempty"`
}

// totpSetUpRecord is a secret that was shown to a session, which has not confirmed it yet.
type totpSetUpRecord struct {
	Sealed    []byte    `cbor:"1,keyasint"`
	ExpiresAt time.Time `cbor:"2,keyasint"`
}

// smsSetUpRecord is a number that a session claims, until it types the code that was sent there.
type smsSetUpRecord struct {
	Number    string    `cbor:"1,keyasint"`
	ExpiresAt time.Time `cbor:"2,keyasint"`
}

// pushDeviceRecord is a phone that prompts go to.
type pushDeviceRecord struct {
	ID     string    `cbor:"1,keyasint"`
	Cookie string    `cbor:"2,keyasint"` // hash of the phone's cookie
	Agent  string    `cbor:"3,keyasint,omitempty"`
	Since  time.Time `cbor:"4,keyasint"`
}

// pushEnrolRecord is the set-up of a phone, begun in a session.
type pushEnrolRecord struct {
	PersonID  string    `cbor:"1,keyasint"`
	Sealed    []byte    `cbor:"2,keyasint"`           // the link's token
	Number    string    `cbor:"3,keyasint"`           // that the phone shows
	Cookie    string    `cbor:"4,keyasint,omitempty"` // hash of the phone's cookie, once the phone has answered
	Agent     string    `cbor:"5,keyasint,omitempty"`
	Tries     int       `cbor:"6,keyasint,omitempty"`
	ExpiresAt time.Time `cbor:"7,keyasint"`
	Token     string    `cbor:"8,keyasint"` // hash of the link's token
}

// promptRecord is a prompt, which asks a person on their phones: is it you?
type promptRecord struct {
	ID        string          `cbor:"1,keyasint"`
	PersonID  string          `cbor:"2,keyasint"`
	Session   string          `cbor:"3,keyasint"`
	Number    string          `cbor:"4,keyasint"`
	Address   string          `cbor:"5,keyasint,omitempty"`
	Agent     string          `cbor:"6,keyasint,omitempty"`
	Client    string          `cbor:"7,keyasint,omitempty"`
	At        time.Time       `cbor:"8,keyasint"`
	ExpiresAt time.Time       `cbor:"9,keyasint"`
	State     string          `cbor:"10,keyasint,omitempty"`
	Counters  []counterRecord `cbor:"11,keyasint,omitempty"`
}

// counterRecord is a counter that counted an attempt.
type counterRecord struct {
	Key    string `cbor:"1,keyasint"`
	Limit  int    `cbor:"2,keyasint"`
	Clears bool   `cbor:"3,keyasint,omitempty"`
	// Until is the wait that the attempt has begun. Zero: none, or it was not recorded
	Until time.Time `cbor:"4,keyasint,omitempty"`
}
