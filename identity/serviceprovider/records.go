package serviceprovider

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of service providers.
var (
	requests  = storage.NewTable[requestRecord]("identity_sp_request")              // hash of the name
	answered  = storage.NewTable[struct{}]("identity_sp_answered")                  // hash of entity ID and request ID
	names     = storage.NewTable[nameRecord]("identity_sp_name")                    // person, hash of the entity ID
	grants    = storage.NewTable[grantRecord]("identity_sp_grant")                  // person, id of the service provider
	visits    = storage.NewTable[visitRecord]("identity_sp_visit")                  // person, session, hash of the entity ID
	visitors  = storage.NewTable[visitorRecord]("identity_sp_visitor")              // hash of entity ID and NameID, session
	farewells = storage.NewTable[farewellRecord]("identity_sp_farewell")            // hash of the name
	holders   = storage.NewTable[holderRecord]("identity_sp_holder")                // hash of the entity ID
	logouts   = storage.NewTable[outbox.Record[logoutRecord]]("identity_sp_logout") // of internal/outbox
)

// requestRecord is a verified request, or a sign-in that begins here, until it is answered.
type requestRecord struct {
	Provider   string    `cbor:"1,keyasint"` // id of the service provider
	Entity     string    `cbor:"2,keyasint"`
	ID         string    `cbor:"3,keyasint,omitempty"` // of the request. Empty: the sign-in begins here
	Service    string    `cbor:"4,keyasint"`           // where the response goes
	Relay      string    `cbor:"5,keyasint,omitempty"`
	Format     string    `cbor:"6,keyasint,omitempty"`
	Qualifier  string    `cbor:"7,keyasint,omitempty"`
	Force      bool      `cbor:"8,keyasint,omitempty"`
	Passive    bool      `cbor:"9,keyasint,omitempty"`
	Comparison string    `cbor:"10,keyasint,omitempty"`
	Classes    []string  `cbor:"11,keyasint,omitempty"`
	CreatedAt  time.Time `cbor:"12,keyasint"`
	ExpiresAt  time.Time `cbor:"13,keyasint"`
	// Subject is the person that the request names, Unnamed says that it does so in a way that is not understood.
	Subject nameRef `cbor:"14,keyasint,omitempty"`
	Unnamed bool    `cbor:"15,keyasint,omitempty"`
}

// nameRef is a NameID in a request.
type nameRef struct {
	Value     string `cbor:"1,keyasint"`
	Format    string `cbor:"2,keyasint,omitempty"`
	Qualifier string `cbor:"3,keyasint,omitempty"`
}

// nameRecord is the persistent name of a person at a service provider.
type nameRecord struct {
	Value string    `cbor:"1,keyasint"`
	At    time.Time `cbor:"2,keyasint"`
}

// grantRecord says that a person has signed in at a service provider, and what they have agreed to.
type grantRecord struct {
	First time.Time `cbor:"1,keyasint"`
	Last  time.Time `cbor:"2,keyasint"`
	// Agreed are the attributes that the person was asked about and allows, Declined those that they do not.
	Agreed   []string `cbor:"3,keyasint,omitempty"`
	Declined []string `cbor:"4,keyasint,omitempty"`
	// Told are the attributes that were told at the last sign-in.
	Told []string `cbor:"5,keyasint,omitempty"`
}

// visitRecord says that a service provider knows a session.
type visitRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	Entity    string    `cbor:"2,keyasint"`
	Name      string    `cbor:"3,keyasint"`
	Format    string    `cbor:"4,keyasint,omitempty"`
	Qualifier string    `cbor:"5,keyasint,omitempty"`
	Index     string    `cbor:"6,keyasint"` // SessionIndex
	At        time.Time `cbor:"7,keyasint"`
}

// visitorRecord leads from a NameID to the session.
type visitorRecord struct {
	Person string `cbor:"1,keyasint"`
	Index  string `cbor:"2,keyasint"`
}

// farewellRecord are the messages of a browser to the service providers of a session that has ended.
type farewellRecord struct {
	Steps     []farewellStep `cbor:"1,keyasint,omitempty"`
	Return    string         `cbor:"2,keyasint,omitempty"` // URL at the end
	ExpiresAt time.Time      `cbor:"3,keyasint"`
	// Asker is the service provider that began, with its request. It is answered at the end. Empty: we began.
	Asker        string `cbor:"4,keyasint,omitempty"`
	AskerRequest string `cbor:"5,keyasint,omitempty"`
	AskerRelay   string `cbor:"6,keyasint,omitempty"`
	AskerBinding string `cbor:"7,keyasint,omitempty"`
	// Browser is the hash of the cookie of the browser that tells them. Sessions are the hashes of the cookies that
	// opened the sessions which a service provider has ended: a browser with one of them may tell them, too.
	Browser  string   `cbor:"8,keyasint,omitempty"`
	Sessions []string `cbor:"9,keyasint,omitempty"`
	// Frames are the pages of clients that the browser loads along. (OpenID Connect Front-Channel Logout 2)
	Frames []string `cbor:"10,keyasint,omitempty"`
	// Left says that the request of Asker names more sessions than one request ends.
	Left bool `cbor:"11,keyasint,omitempty"`
}

// farewellStep is one service provider.
type farewellStep struct {
	Visit   visitRecord `cbor:"1,keyasint"`
	Request string      `cbor:"2,keyasint,omitempty"` // ID of the last LogoutRequest. Empty: it was told nothing
	Done    bool        `cbor:"3,keyasint,omitempty"` // it has confirmed
}

// begun reports whether one of them was told.
func (r *farewellRecord) begun() bool {
	return slices.ContainsFunc(r.Steps, func(s farewellStep) bool { return s.Request != "" })
}

// done reports whether all of them have confirmed.
func (r *farewellRecord) done() bool {
	return !slices.ContainsFunc(r.Steps, func(s farewellStep) bool { return !s.Done })
}

// status returns the status of the answer to Asker. A logout that has not reached every service provider is partial,
// and no success if sessions are left here. (SAML core 3.7.3.2)
func (r *farewellRecord) status() (code, detail string) {
	switch {
	case r.Left:
		return samlidp.Responder, samlidp.PartialLogout
	case !r.done():
		return samlidp.Success, samlidp.PartialLogout
	}
	return samlidp.Success, ""
}

// logoutRecord is a LogoutRequest that is posted without a browser.
type logoutRecord struct {
	Visit visitRecord `cbor:"1,keyasint"`
}

// holderRecord is the service provider that counts for an entity ID: the one that has signed people in first. It does
// as long as its metadata have that entity ID.
type holderRecord struct {
	Provider string `cbor:"1,keyasint"`
}
