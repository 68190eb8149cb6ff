package identity

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of persons. As in every table of the service, cookies are keys by their hash (secret.Hash), never values. Validity is decided by
// the records' own times and the epochs; the expiry given to storage is for collection.
var (
	persons            = storage.NewTable[personRecord]("identity_person")               // person id
	usernames          = storage.NewTable[usernameRecord]("identity_username")           // folded username
	passwords          = storage.NewTable[passwordRecord]("identity_password")           // person id
	identities         = storage.NewTable[identityRecord]("identity_external")           // provider, hash of the folded username or of issuer and subject there
	profiles           = storage.NewTable[profileRecord]("identity_profile")             // person id
	groups             = storage.NewTable[groupRecord]("identity_group")                 // group id
	groupNames         = storage.NewTable[string]("identity_group_name")                 // group name; the value is its id
	groupMembers       = storage.NewTable[struct{}]("identity_group_member")             // group id, person id
	tallies            = storage.NewTable[tallyRecord]("identity_tally")                 // partition
	partitionUsernames = storage.NewTable[usernameRecord]("identity_partition_username") // partition, folded username; not of the default one
	personsByPhone     = storage.NewTable[struct{}]("identity_by_phone")                 // E.164 number, person id
	personsByEmail     = storage.NewTable[struct{}]("identity_by_email")                 // partition, folded address, person id
	personsByExternal  = storage.NewTable[struct{}]("identity_by_external_id")           // partition, external id, person id
	identitiesOf       = storage.NewTable[struct{}]("identity_external_of")              // person id, key in identities
	noticed            = storage.NewTable[noticedRecord]("identity_noticed")             // person id
)

// Tables of sessions.
var (
	sessions    = storage.NewTable[sessionRecord]("identity_session")        // session id
	sessionKeys = storage.NewTable[sessionKeyRecord]("identity_session_key") // hash of the cookie
	sessionsOf  = storage.NewTable[struct{}]("identity_session_of")          // person id, session id
	signedIns   = storage.NewTable[signedInRecord]("identity_signed_in")     // person id
	globals     = storage.NewTable[globalRecord]("identity_global")          // globalKey
	held        = storage.NewTable[heldRecord]("identity_held")              // session id
)

// Tables of proofs.
var (
	devices        = storage.NewTable[deviceRecord]("identity_device")                // person id, hash of the device cookie
	failures       = storage.NewTable[failureRecord]("identity_failure")              // kind of counter, whom, from where
	sentCodes      = storage.NewTable[sentCodeRecord]("identity_sent_code")           // purpose, hash of the subject
	deliveredCodes = storage.NewTable[deliveredCodeRecord]("identity_delivered_code") // what it is for, person id
	links          = storage.NewTable[linkRecord]("identity_link")                    // hash of the token
	linksOf        = storage.NewTable[string]("identity_link_of")                     // person id, kind; the value is the hash of the newest
)

// Tables of sign-ins under way.
var (
	flows = storage.NewTable[flowRecord]("identity_flow") // flow id
)

// Tables of identity providers.
var (
	providerFlows = storage.NewTable[providerFlowRecord]("identity_provider_flow") // hash of the flow's name
	endings       = storage.NewTable[endingRecord]("identity_provider_end")        // hash of the flow's name
	refusals      = storage.NewTable[refusalRecord]("identity_refusal")            // hash of the browser cookie, hash of the Return
	sessionNames  = storage.NewTable[struct{}]("identity_held_name")               // provider, hash of issuer and subject or name, session id
	onces         = storage.NewTable[onceRecord]("identity_once")                  // provider, hash of the key
)

// Tables of step-ups.
var (
	stepUps           = storage.NewTable[stepUpRecord]("identity_step_up")                     // person id
	totpSetUps        = storage.NewTable[totpSetUpRecord]("identity_step_up_new_totp")         // session id
	smsSetUps         = storage.NewTable[smsSetUpRecord]("identity_step_up_new_sms")           // session id
	pushEnrols        = storage.NewTable[pushEnrolRecord]("identity_step_up_new_push")         // session id
	pushEnrolKeys     = storage.NewTable[string]("identity_push_enrol_key")                    // hash of the link's token; the value is the session id
	prompts           = storage.NewTable[promptRecord]("identity_prompt")                      // hash of the flow id, session id
	promptIDs         = storage.NewTable[string]("identity_prompt_id")                         // id of the prompt; the value is its key
	passkeySets       = storage.NewTable[passkeySetRecord]("identity_passkey_set")             // person id
	passkeyOwners     = storage.NewTable[string]("identity_passkey")                           // hash of the credential id; the value is the person's id
	passkeyChallenges = storage.NewTable[passkeyChallengeRecord]("identity_passkey_challenge") // what for, flow or session id
)

// Tables of action tokens.
var (
	actionTokens   = storage.NewTable[actionTokenRecord]("identity_action_token") // hash of the token
	actionTokensOf = storage.NewTable[string]("identity_action_token_of")         // person id, token id; the value is the hash of the token
	signInTickets  = storage.NewTable[ticketRecord]("identity_sign_in_ticket")    // hash of the ticket
)

// Tables of enrolment.
var (
	textResets  = storage.NewTable[textResetRecord]("identity_text_reset")  // hash of the browser cookie
	invitations = storage.NewTable[invitationRecord]("identity_invitation") // person id
	signUps     = storage.NewTable[signUpRecord]("identity_sign_up")        // hash of the browser's token for it
)

// Tables of the account pages.
var (
	newContacts   = storage.NewTable[newContactRecord]("identity_new_contact")   // session id
	typedContacts = storage.NewTable[newContactRecord]("identity_typed_contact") // session id
	ownLinkOf     = storage.NewTable[string]("identity_own_link_of")             // person id; the value is the id of the token that they have made on a page
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
	// Claims are the standard claims that no member above holds, such as phone_number.
	Claims    map[string]string `cbor:"14,keyasint,omitempty"`
	Partition string            `cbor:"15,keyasint,omitempty"` // empty: the default one
	// Awaits says that an inactive person activates the account, and how they are welcomed then.
	Awaits welcome `cbor:"16,keyasint,omitempty"`
}

// profileRecord is everything else that is kept of a person. What the small record holds too is right there (see overlay).
type profileRecord struct {
	Profile   Profile   `cbor:"1,keyasint"`
	Directory Directory `cbor:"2,keyasint"`
}

// groupRecord is a group of persons. Their own records name it; its members are keys of their own.
type groupRecord struct {
	Name        string    `cbor:"1,keyasint"`
	ExternalID  string    `cbor:"2,keyasint,omitempty"`
	Permissions []string  `cbor:"3,keyasint,omitempty"`
	Members     int64     `cbor:"4,keyasint,omitempty"`
	CreatedAt   time.Time `cbor:"5,keyasint"`
	UpdatedAt   time.Time `cbor:"6,keyasint"`
	Version     int64     `cbor:"7,keyasint,omitempty"` // grows with each change, memberships included
	// Former is the name that some members' records may still have after a rename; Removing: members are being taken out.
	Former   string `cbor:"8,keyasint,omitempty"`
	Removing bool   `cbor:"9,keyasint,omitempty"`
}

// tallyRecord counts.
type tallyRecord struct {
	Persons int64 `cbor:"1,keyasint"`
	Version int64 `cbor:"2,keyasint,omitempty"` // grows with each change of who is there under which name
}

// noticedRecord is when somebody was told something that they are not told again soon: a person of wrong passwords, an organisation of what keeps
// accounts from being coupled.
type noticedRecord struct {
	At time.Time `cbor:"1,keyasint"`
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
	// Details are what the provider has said of the person at the last sign-in, or since.
	Details map[string][]string `cbor:"14,keyasint,omitempty"`
	// Opened is when the sign-in reached us, where AuthTime is when the person signed in elsewhere: lifetimes count from it.
	Opened time.Time `cbor:"15,keyasint,omitempty"`
	// NotAfter is when the session ends at the latest, by the word of the provider.
	NotAfter time.Time `cbor:"16,keyasint,omitempty"`
	// Held says that there is a heldRecord.
	Held bool `cbor:"17,keyasint,omitempty"`
	// Unproven says that the provider has not told when the person signed in there: AuthTime is when they came from there.
	Unproven bool `cbor:"18,keyasint,omitempty"`
	// Address and Agent are from where the session was last used on our own pages: an IP address, and what the browser calls itself.
	Address string `cbor:"19,keyasint,omitempty"`
	Agent   string `cbor:"20,keyasint,omitempty"`
	// Base is what the sign-in itself has reached, once something has raised it; Raised is what has, each method once.
	Base   *baseRecord    `cbor:"21,keyasint,omitempty"`
	Raised []raisedRecord `cbor:"22,keyasint,omitempty"`
	// Passkey is the id of the passkey that the sign-in was by. Empty: by none, or nobody has kept by which
	Passkey string `cbor:"23,keyasint,omitempty"`
	// Again says that the person had signed in before.
	Again bool `cbor:"24,keyasint,omitempty"`
}

// baseRecord is level and words of a sign-in before it was raised.
type baseRecord struct {
	Level int      `cbor:"1,keyasint"`
	AMR   []string `cbor:"2,keyasint,omitempty"`
}

// raisedRecord is a method that has raised a session, and to what.
type raisedRecord struct {
	Method string `cbor:"1,keyasint"`
	Level  int    `cbor:"2,keyasint"`
	// Passkey is the id of the passkey that it was. Empty: it was none, or nobody has kept which
	Passkey string `cbor:"3,keyasint,omitempty"`
}

// heldRecord is what the provider of a session needs later. It stands apart, since sessions are read often and it is not.
type heldRecord struct {
	Provider string   `cbor:"1,keyasint"`
	Identity string   `cbor:"2,keyasint"`           // key in identities
	Names    []string `cbor:"3,keyasint,omitempty"` // hashes of what the provider calls the session
	Sealed   []byte   `cbor:"4,keyasint,omitempty"`
	// Refreshed counts how often Sealed was replaced, so that a late answer does not undo a later one.
	Refreshed int64 `cbor:"5,keyasint,omitempty"`
}

// identityRecord leads from who somebody is at a provider to the person.
type identityRecord struct {
	PersonID string `cbor:"1,keyasint"`
	// Issuer and Subject are empty where the key is that of a folded username.
	Issuer  string    `cbor:"2,keyasint,omitempty"`
	Subject string    `cbor:"3,keyasint,omitempty"`
	Since   time.Time `cbor:"4,keyasint,omitempty"`
}

// providerFlowRecord is a sign-in that a browser was sent to a provider for. It takes one answer.
type providerFlowRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	SignIn    string    `cbor:"2,keyasint,omitempty"` // flow id of the sign-in; empty: nobody has asked for the answer
	Tracker   string    `cbor:"3,keyasint"`           // hash of the tracker cookie
	State     []byte    `cbor:"4,keyasint,omitempty"` // of the provider, sealed
	Answered  bool      `cbor:"5,keyasint,omitempty"`
	Identity  []byte    `cbor:"6,keyasint,omitempty"` // verified, sealed; once there is an answer
	CreatedAt time.Time `cbor:"7,keyasint"`
	ExpiresAt time.Time `cbor:"8,keyasint"`
	// Typed is what somebody has typed who comes for the first time, sealed, until it is confirmed. Empty: nothing
	Typed []byte `cbor:"9,keyasint,omitempty"`
}

// endingRecord is a sign-out that a browser was sent to a provider for, after it has signed out here.
type endingRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	Tracker   string    `cbor:"2,keyasint"`           // hash of the tracker cookie
	Return    string    `cbor:"3,keyasint"`           // URL
	Held      []byte    `cbor:"4,keyasint,omitempty"` // sealed
	State     []byte    `cbor:"5,keyasint,omitempty"` // of the provider, sealed
	ExpiresAt time.Time `cbor:"6,keyasint"`
}

// refusalRecord is why a provider has signed nobody in, until whoever asked is told.
type refusalRecord struct {
	Code       string    `cbor:"1,keyasint"`
	Reason     string    `cbor:"2,keyasint"`
	SAMLStatus string    `cbor:"3,keyasint,omitempty"`
	Cause      string    `cbor:"4,keyasint,omitempty"`
	ExpiresAt  time.Time `cbor:"5,keyasint"`
}

// actionTokenRecord is what an action token does, once.
type actionTokenRecord struct {
	ID          string    `cbor:"1,keyasint"`
	PersonID    string    `cbor:"2,keyasint"`
	Epoch       int64     `cbor:"3,keyasint,omitempty"` // of the person
	Actions     []Action  `cbor:"4,keyasint"`
	RedirectURI string    `cbor:"5,keyasint,omitempty"`
	Level       int       `cbor:"6,keyasint,omitempty"` // 0: as configured
	AppToWeb    bool      `cbor:"7,keyasint,omitempty"`
	CreatedAt   time.Time `cbor:"8,keyasint"`
	ExpiresAt   time.Time `cbor:"9,keyasint"`
	// Session is that in which the person has made it on a page: it ends with it, and is worth no more. Empty: somebody else has made it
	Session string `cbor:"10,keyasint,omitempty"`
}

// ticketRecord signs a person in, once.
type ticketRecord struct {
	PersonID    string    `cbor:"1,keyasint"`
	Epoch       int64     `cbor:"2,keyasint,omitempty"` // of the person
	Level       int       `cbor:"3,keyasint"`
	RedirectURI string    `cbor:"4,keyasint,omitempty"`
	ExpiresAt   time.Time `cbor:"5,keyasint"`
	Session     string    `cbor:"6,keyasint,omitempty"` // as in actionTokenRecord
}

// linkRecord is a link that a person was sent: good once.
type linkRecord struct {
	Kind      string            `cbor:"1,keyasint"`
	PersonID  string            `cbor:"2,keyasint"`
	Epoch     int64             `cbor:"3,keyasint,omitempty"` // of the person
	Global    int64             `cbor:"4,keyasint,omitempty"` // of all sessions: a restore ends links too
	Data      map[string]string `cbor:"5,keyasint,omitempty"`
	CreatedAt time.Time         `cbor:"6,keyasint"`
	ExpiresAt time.Time         `cbor:"7,keyasint"`
}

// textResetRecord is a browser in which somebody has asked for a code on the telephone, to choose a new password.
type textResetRecord struct {
	PersonID  string    `cbor:"1,keyasint,omitempty"` // empty: nobody, who is told nothing
	Typed     string    `cbor:"2,keyasint"`           // hash of what was typed, and of the device where the person knows it
	To        string    `cbor:"3,keyasint"`           // E.164
	ExpiresAt time.Time `cbor:"4,keyasint"`
}

// invitationRecord is an invitation that a person has not accepted yet.
type invitationRecord struct {
	Email     string    `cbor:"1,keyasint"`           // the address that it is for
	Sent      bool      `cbor:"2,keyasint,omitempty"` // the link went there: whoever opens it reads it
	SentAt    time.Time `cbor:"3,keyasint"`
	ExpiresAt time.Time `cbor:"4,keyasint"`
	Tries     int       `cbor:"5,keyasint,omitempty"` // answers that were taken
	// Browser is the hash of the cookie of the browser that may accept: it has shown that the person is meant, or goes on without (Skipped).
	Browser string `cbor:"6,keyasint,omitempty"`
	Skipped bool   `cbor:"7,keyasint,omitempty"`
	Number  string `cbor:"8,keyasint,omitempty"` // the telephone number that was shown
}

// signUpRecord is what somebody has typed who signs up, until the address is confirmed.
type signUpRecord struct {
	Browser   string    `cbor:"1,keyasint"` // hash of the browser cookie
	Sealed    []byte    `cbor:"2,keyasint"`
	ExpiresAt time.Time `cbor:"3,keyasint"`
}

// onceRecord says that something was used.
type onceRecord struct {
	Until time.Time `cbor:"1,keyasint"`
}

// newContactRecord is an address or number that a person says is theirs, until a code that was sent there shows it.
type newContactRecord struct {
	Kind      string    `cbor:"1,keyasint"`
	Value     string    `cbor:"2,keyasint"`
	ExpiresAt time.Time `cbor:"3,keyasint"`
	// Flow is the sign-in that goes on once it is confirmed. Empty: the person was at their profile
	Flow string `cbor:"4,keyasint,omitempty"`
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
	// Invited is the person who accepts an invitation by it. Empty: nobody
	Invited string `cbor:"5,keyasint,omitempty"`
	// Activating is whose password was right, and who has to be activated first. nil: nobody
	Activating *activatingRecord `cbor:"6,keyasint,omitempty"`
	// Couple is the session whose person the identity of a provider is to sign in from now on. Empty: it signs somebody in.
	Couple string `cbor:"7,keyasint,omitempty"`
	// Typed is the username that somebody has typed for this sign-in. Empty: none
	Typed string `cbor:"8,keyasint,omitempty"`
	// Elsewhere is where the person goes in place of the Return, which is known to be good. Empty: to the Return
	Elsewhere string `cbor:"9,keyasint,omitempty"`
}

// signedInRecord says that a person has signed in.
type signedInRecord struct {
	First time.Time `cbor:"1,keyasint"`
}

// activatingRecord is a right password of a person who is inactive.
type activatingRecord struct {
	PersonID string    `cbor:"1,keyasint"`
	Epoch    int64     `cbor:"2,keyasint,omitempty"` // of the person
	At       time.Time `cbor:"3,keyasint"`
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

// stepUpRecord is what a person has set up to reach higher levels, and which of it they used last.
type stepUpRecord struct {
	Preferred string      `cbor:"1,keyasint,omitempty"`
	TOTP      *totpRecord `cbor:"2,keyasint,omitempty"`
	Recovery  []string    `cbor:"3,keyasint,omitempty"` // hashes of the codes that are left
	PIN       *pinRecord  `cbor:"4,keyasint,omitempty"`
	NoSMS     bool        `cbor:"5,keyasint,omitempty"` // the person wants no codes by text message

	Devices []pushDeviceRecord `cbor:"6,keyasint,omitempty"`
	Fixed   bool               `cbor:"7,keyasint,omitempty"` // the person has chosen Preferred
}

// totpRecord is the secret that an authenticator app shares with us.
type totpRecord struct {
	Sealed   []byte    `cbor:"1,keyasint"`
	LastStep int64     `cbor:"2,keyasint"` // time step of the last code that was taken; it and those before it are used up
	Since    time.Time `cbor:"3,keyasint"`
}

// pinRecord is the slow hash of a PIN, sealed.
type pinRecord struct {
	Sealed   []byte    `cbor:"1,keyasint"`
	Failures int       `cbor:"2,keyasint,omitempty"` // in a row
	Since    time.Time `cbor:"3,keyasint"`
}

// totpSetUpRecord is a secret that a session was shown and has not confirmed yet.
type totpSetUpRecord struct {
	Sealed    []byte    `cbor:"1,keyasint"`
	ExpiresAt time.Time `cbor:"2,keyasint"`
}

// sentCodeRecord is a code that was sent.
type sentCodeRecord struct {
	Bound     string    `cbor:"1,keyasint"`
	Hash      []byte    `cbor:"2,keyasint"`
	Tries     int       `cbor:"3,keyasint,omitempty"`
	SentAt    time.Time `cbor:"4,keyasint"`
	ExpiresAt time.Time `cbor:"5,keyasint"`
}

// deliveredCodeRecord is a code that somebody delivers.
type deliveredCodeRecord struct {
	Hash      []byte    `cbor:"1,keyasint"`
	Epoch     int64     `cbor:"2,keyasint,omitempty"` // of the person
	Tries     int       `cbor:"3,keyasint,omitempty"`
	MadeAt    time.Time `cbor:"4,keyasint"`
	From      time.Time `cbor:"5,keyasint"` // it is not good before
	ExpiresAt time.Time `cbor:"6,keyasint"`
}

// passkeySetRecord is the passkeys of a person. Handle is what they call the person: random, and the same as long as there is one.
type passkeySetRecord struct {
	Handle []byte          `cbor:"1,keyasint"`
	Keys   []passkeyRecord `cbor:"2,keyasint,omitempty"`
	// Made counts those that there have been.
	Made int `cbor:"3,keyasint,omitempty"`
}

// passkeyRecord is a passkey as far as it is public.
type passkeyRecord struct {
	ID         string   `cbor:"1,keyasint"` // of ours, for addresses
	Credential []byte   `cbor:"2,keyasint"` // credential id
	PublicKey  []byte   `cbor:"3,keyasint"` // COSE
	Name       string   `cbor:"4,keyasint,omitempty"`
	Number     int      `cbor:"5,keyasint"`
	SignCount  uint32   `cbor:"6,keyasint,omitempty"`
	Transports []string `cbor:"7,keyasint,omitempty"`
	Model      []byte   `cbor:"8,keyasint,omitempty"` // AAGUID
	// BackupEligible says that it may be on several devices, BackedUp that it is.
	BackupEligible bool      `cbor:"9,keyasint,omitempty"`
	BackedUp       bool      `cbor:"10,keyasint,omitempty"`
	Since          time.Time `cbor:"11,keyasint"`
	Used           time.Time `cbor:"12,keyasint,omitempty"`
	// Suspect says that its counter has gone back: it is not taken any more.
	Suspect bool `cbor:"13,keyasint,omitempty"`
}

// passkeyChallengeRecord is what a passkey has to sign, once.
type passkeyChallengeRecord struct {
	Challenge []byte    `cbor:"1,keyasint"`
	ExpiresAt time.Time `cbor:"2,keyasint"`
}

// smsSetUpRecord is a number that a session says is the person's, until the code arrives there.
type smsSetUpRecord struct {
	Number    string    `cbor:"1,keyasint"`
	ExpiresAt time.Time `cbor:"2,keyasint"`
}

// pushDeviceRecord is a phone that a person is asked on.
type pushDeviceRecord struct {
	ID     string    `cbor:"1,keyasint"`
	Cookie string    `cbor:"2,keyasint"` // hash of the cookie that the phone has
	Agent  string    `cbor:"3,keyasint,omitempty"`
	Since  time.Time `cbor:"4,keyasint"`
}

// pushEnrolRecord is the set-up of a phone, begun in a session.
type pushEnrolRecord struct {
	PersonID  string    `cbor:"1,keyasint"`
	Sealed    []byte    `cbor:"2,keyasint"`           // the link's token
	Number    string    `cbor:"3,keyasint"`           // that the phone shows
	Cookie    string    `cbor:"4,keyasint,omitempty"` // hash of the phone's, once it has answered
	Agent     string    `cbor:"5,keyasint,omitempty"`
	Tries     int       `cbor:"6,keyasint,omitempty"`
	ExpiresAt time.Time `cbor:"7,keyasint"`
	Token     string    `cbor:"8,keyasint"` // hash of the link's
}

// promptRecord is a question to the phones of a person: is it you?
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
	Counters  []countedRecord `cbor:"11,keyasint,omitempty"`
}

// countedRecord is a counter that a try was held against.
type countedRecord struct {
	Key    string `cbor:"1,keyasint"`
	Limit  int    `cbor:"2,keyasint"`
	Clears bool   `cbor:"3,keyasint,omitempty"`
}
