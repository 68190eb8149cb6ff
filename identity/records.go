package identity

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. Cookies are keys by their hash (secret.Hash), never values. Validity is decided from the records'
// own times and the epochs; the expiry given to storage is for collection.
var (
	persons     = storage.NewTable[personRecord]("identity_person")          // person id
	usernames   = storage.NewTable[usernameRecord]("identity_username")      // folded username
	passwords   = storage.NewTable[passwordRecord]("identity_password")      // person id
	sessions    = storage.NewTable[sessionRecord]("identity_session")        // session id
	sessionKeys = storage.NewTable[sessionKeyRecord]("identity_session_key") // hash of the cookie
	sessionsOf  = storage.NewTable[struct{}]("identity_session_of")          // person id, session id
	flows       = storage.NewTable[flowRecord]("identity_flow")              // flow id
	devices     = storage.NewTable[deviceRecord]("identity_device")          // person id, hash of the device cookie
	failures    = storage.NewTable[failureRecord]("identity_failure")        // kind of counter, whom, from where
	identities  = storage.NewTable[identityRecord]("identity_external")      // provider, hash of the folded username there
	globals     = storage.NewTable[globalRecord]("identity_global")          // globalKey
)

const globalKey = "state"

// globalRecord is what concerns every session at once.
type globalRecord struct {
	Epoch int64 `cbor:"1,keyasint"` // grows when every session ends, as after a restore
}

// personRecord is all that tokens and headers say of a person, in one small record: the hot paths read it once. What signs the person
// in stands apart.
type personRecord struct {
	State         State     `cbor:"1,keyasint"`
	Epoch         int64     `cbor:"2,keyasint,omitempty"`
	Username      string    `cbor:"3,keyasint"`
	Name          string    `cbor:"4,keyasint,omitempty"`
	GivenName     string    `cbor:"5,keyasint,omitempty"`
	FamilyName    string    `cbor:"6,keyasint,omitempty"`
	Email         string    `cbor:"7,keyasint,omitempty"`
	EmailVerified bool      `cbor:"8,keyasint,omitempty"`
	Groups        []string  `cbor:"9,keyasint,omitempty"`
	Locale        string    `cbor:"10,keyasint,omitempty"`
	CreatedAt     time.Time `cbor:"11,keyasint"`
	UpdatedAt     time.Time `cbor:"12,keyasint"`
	// External is the key in identities of a person whom a provider has brought.
	External string `cbor:"13,keyasint,omitempty"`
}

// usernameRecord makes a username unique: its key is the folded name.
type usernameRecord struct {
	PersonID string `cbor:"1,keyasint"`
}

// passwordRecord is the slow hash of a password, in PHC form.
type passwordRecord struct {
	PHC       string    `cbor:"1,keyasint"`
	ChangedAt time.Time `cbor:"2,keyasint"`
}

// sessionRecord is a sign-in of one person in one browser.
type sessionRecord struct {
	PersonID   string    `cbor:"1,keyasint"`
	Epoch      int64     `cbor:"2,keyasint,omitempty"` // of the person
	Global     int64     `cbor:"3,keyasint,omitempty"` // of all sessions
	Cookie     string    `cbor:"4,keyasint"`           // hash of the cookie that opens it, to remove its key
	AuthTime   time.Time `cbor:"5,keyasint"`           // of the last sign-in; lifetimes count from it
	Seen       time.Time `cbor:"6,keyasint"`           // idle mark, written at most once a minute
	Level      int       `cbor:"7,keyasint"`
	AMR        []string  `cbor:"8,keyasint,omitempty"`
	Provider   string    `cbor:"9,keyasint,omitempty"`
	Remembered bool      `cbor:"10,keyasint,omitempty"`
	// SignedInFor and ConfirmedFor are the hashes of the Return that the person last signed in for or chose this account for: asked
	// again on the way back, neither is asked twice, however strict the demand.
	SignedInFor  string    `cbor:"11,keyasint,omitempty"`
	ConfirmedFor string    `cbor:"12,keyasint,omitempty"`
	ConfirmedAt  time.Time `cbor:"13,keyasint,omitempty"`
	// Details are what the provider has said of the person at the last sign-in.
	Details map[string][]string `cbor:"14,keyasint,omitempty"`
}

// identityRecord leads from who somebody is at a provider to the person.
type identityRecord struct {
	PersonID string `cbor:"1,keyasint"`
}

// sessionKeyRecord leads from the cookie to its session.
type sessionKeyRecord struct {
	SessionID string `cbor:"1,keyasint"`
}

// flowRecord is a sign-in under way. It is bound to the browser that started it and is not used up: back and reload find it again.
type flowRecord struct {
	Demand    login.Demand `cbor:"1,keyasint"`
	Browser   string       `cbor:"2,keyasint"` // hash of the browser cookie
	CreatedAt time.Time    `cbor:"3,keyasint"`
	ExpiresAt time.Time    `cbor:"4,keyasint"`
}

// deviceRecord says that a person has signed in with this browser before.
type deviceRecord struct {
	Epoch int64     `cbor:"1,keyasint,omitempty"` // of the person: a changed password makes every device unknown
	Seen  time.Time `cbor:"2,keyasint"`
}

// failureRecord counts failed sign-ins.
type failureRecord struct {
	Failures int       `cbor:"1,keyasint"`
	First    time.Time `cbor:"2,keyasint"` // of this window
	Until    time.Time `cbor:"3,keyasint"` // no try is taken before
}
