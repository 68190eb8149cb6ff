package session

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of sessions.
var (
	Records         = storage.NewTable[Record]("identity_session")              // session id
	keyRecords      = storage.NewTable[keyRecord]("identity_session_key")       // hash of the cookie
	lists           = storage.NewTable[listRecord]("identity_sessions")         // person id
	FirstSignIns    = storage.NewTable[FirstSignInRecord]("identity_signed_in") // person id
	globals         = storage.NewTable[globalRecord]("identity_global")         // globalKey
	ProviderRecords = storage.NewTable[ProviderRecord]("identity_held")         // session id
)

const globalKey = "state"

// globalRecord concerns all sessions.
type globalRecord struct {
	Epoch int64 `cbor:"1,keyasint"` // grows when all sessions end, such as after a restore
}

// Record is a sign-in of one person in one browser.
type Record struct {
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
	// SignedInFor and ConfirmedFor are the hashes of the Return that the person last signed in for, or chose this account
	// for. They keep a strict demand from asking again when the browser comes back.
	SignedInFor  string    `cbor:"11,keyasint,omitempty"`
	ConfirmedFor string    `cbor:"12,keyasint,omitempty"`
	ConfirmedAt  time.Time `cbor:"13,keyasint,omitempty"`
	// Details are the provider's details of the person at the last sign-in, or later.
	Details map[string][]string `cbor:"14,keyasint,omitempty"`
	// Opened is the time when the sign-in reached this service. Lifetimes count from it if AuthTime is that of a
	// provider.
	Opened time.Time `cbor:"15,keyasint,omitempty"`
	// NotAfter is the latest end of the session that the provider allows.
	NotAfter time.Time `cbor:"16,keyasint,omitempty"`
	// Held says that there is a ProviderRecord.
	Held bool `cbor:"17,keyasint,omitempty"`
	// Unproven says that the provider did not give the time of the sign-in. AuthTime is then the time of their return.
	Unproven bool `cbor:"18,keyasint,omitempty"`
	// Address and Agent say where the session was last used on the pages of this service: IP address and User-Agent.
	Address string `cbor:"19,keyasint,omitempty"`
	Agent   string `cbor:"20,keyasint,omitempty"`
	// Base is the strength of the sign-in before it was raised. nil: it was not. Raised are the methods that raised it,
	// each once.
	Base   *BaseRecord    `cbor:"21,keyasint,omitempty"`
	Raised []raisedRecord `cbor:"22,keyasint,omitempty"`
	// Passkey is the id of the passkey of the sign-in. Empty: none, or the id was not recorded
	Passkey string `cbor:"23,keyasint,omitempty"`
	// Again says that the person had signed in before.
	Again bool `cbor:"24,keyasint,omitempty"`
	// Seeing names the person whose account an administrator is viewing. nil: no one
	Seeing *SeeingRecord `cbor:"25,keyasint,omitempty"`
	// RaisedFor is the hash of the Return for which a second factor was used, until the person was asked whether they
	// trust the browser.
	RaisedFor string `cbor:"26,keyasint,omitempty"`
	// Trusted is the id of the trust in the browser that counts for the second factor in this session. Empty: none
	Trusted string `cbor:"27,keyasint,omitempty"`
	// TrustSalt is the salt that turned the browser's former secret into the present one. nil: it was not changed
	TrustSalt []byte `cbor:"28,keyasint,omitempty"`
	// Vouched says that the sign-in does not count for someone with a role in the admin console: an API client has opened
	// the session, or a login method that people with a role cannot use.
	Vouched bool `cbor:"29,keyasint,omitempty"`
	// DeviceKey is the public key of the device that the session is bound to. (package dbsc) Empty: none
	DeviceKey []byte `cbor:"30,keyasint,omitempty"`
}

// SeeingRecord names the person whose account the administrator of a session is viewing, and the end of that. Nothing
// else of the session changes: it stays the administrator's.
type SeeingRecord struct {
	Person string    `cbor:"1,keyasint"` // id
	Ends   time.Time `cbor:"2,keyasint"`
}

// listRecord lists the sessions of a person.
type listRecord struct {
	Sessions []string  `cbor:"1,keyasint,omitempty"`
	Ends     time.Time `cbor:"2,keyasint"` // when the last of them can be collected, and the list with it
	// Known is the known data of each session, in the order of Sessions.
	Known []knownRecord `cbor:"3,keyasint,omitempty"`
}

// knownRecord is the data of a session when it was last read for its list. Times are in microseconds since 1970.
type knownRecord struct {
	_ struct{} `cbor:",toarray"`

	Seen   int64
	Ends   int64 // when it ends if it is not used again; 0: unknown
	Epoch  int64 // of the person
	Global int64
}

// add adds a session that can be collected at ends.
func (l *listRecord) add(id string, known knownRecord, ends time.Time) {
	if at := slices.Index(l.Sessions, id); at >= 0 {
		l.Known[at] = known
	} else {
		l.Sessions, l.Known = append(l.Sessions, id), append(l.Known, known)
	}
	if ends.After(l.Ends) {
		l.Ends = ends
	}
}

// remove takes sessions out.
func (l *listRecord) remove(ids ...string) {
	kept := 0
	for i, id := range l.Sessions {
		if !slices.Contains(ids, id) {
			l.Sessions[kept], l.Known[kept] = id, l.Known[i]
			kept++
		}
	}
	l.Sessions, l.Known = l.Sessions[:kept], l.Known[:kept]
}

// BaseRecord is the level and the methods (amr) of a sign-in before it was raised.
type BaseRecord struct {
	Level int      `cbor:"1,keyasint"`
	AMR   []string `cbor:"2,keyasint,omitempty"`
}

// raisedRecord is a method that has raised a session, and the level.
type raisedRecord struct {
	Method string `cbor:"1,keyasint"`
	Level  int    `cbor:"2,keyasint"`
	// Passkey is the id of the passkey. Empty: another method, or the id was not recorded
	Passkey string `cbor:"3,keyasint,omitempty"`
	// At is the time of the last use by the person. Zero: it was only set up, or that was not recorded
	At time.Time `cbor:"4,keyasint,omitempty"`
}

// ProviderRecord is the data that the provider of a session needs later. It is a separate record because sessions are
// read more often.
type ProviderRecord struct {
	Provider string   `cbor:"1,keyasint"`
	Identity string   `cbor:"2,keyasint"`           // key in identities
	Names    []string `cbor:"3,keyasint,omitempty"` // hashes of the provider's names for the session
	Sealed   []byte   `cbor:"4,keyasint,omitempty"`
	// Refreshed counts how often Sealed was replaced, so a late answer does not undo a later one.
	Refreshed int64 `cbor:"5,keyasint,omitempty"`
}

// Matches reports whether the session has one of the names. No names match every session.
func (h *ProviderRecord) Matches(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(h.Names, func(n string) bool { return slices.Contains(names, n) })
}

// keyRecord leads from the cookie to its session.
type keyRecord struct {
	SessionID string `cbor:"1,keyasint"`
}

// FirstSignInRecord says that a person has signed in.
type FirstSignInRecord struct {
	First time.Time `cbor:"1,keyasint"`
}
