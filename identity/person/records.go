package person

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of persons. In all tables of the service cookies are keys by their hash (secret.Hash), never values. The
// times and epochs of the records decide what is valid; the expiry given to storage is for collection.
var (
	Records            = storage.NewTable[Record]("identity_person")                     // person id
	usernames          = storage.NewTable[UsernameRecord]("identity_username")           // folded username
	Passwords          = storage.NewTable[PasswordRecord]("identity_password")           // person id
	Identities         = storage.NewTable[IdentityRecord]("identity_external")           // provider, hash of username or issuer and subject
	Profiles           = storage.NewTable[ProfileRecord]("identity_profile")             // person id
	groups             = storage.NewTable[groupRecord]("identity_group")                 // group id
	groupNames         = storage.NewTable[string]("identity_group_name")                 // group name; the value is its id
	unfinishedGroups   = storage.NewTable[time.Time]("identity_group_unfinished")        // group id; when it was renamed or removed
	groupMembers       = storage.NewTable[struct{}]("identity_group_member")             // group id, person id
	tallies            = storage.NewTable[tallyRecord]("identity_tally")                 // partition
	partitionUsernames = storage.NewTable[UsernameRecord]("identity_partition_username") // partition, folded username; not of the default one
	PhoneIndex         = storage.NewTable[struct{}]("identity_by_phone")                 // E.164 number, person id
	EmailIndex         = storage.NewTable[struct{}]("identity_by_email")                 // partition, folded address, person id
	externalIndex      = storage.NewTable[struct{}]("identity_by_external_id")           // partition, external id, person id
	stableNames        = storage.NewTable[string]("identity_external_stable")            // provider, hash of issuer and attribute -> identity
	externalSubjects   = storage.NewTable[struct{}]("identity_external_subject")         // provider, hash of subject, the other hash
	IdentitiesOf       = storage.NewTable[struct{}]("identity_external_of")              // person id, key in identities
	configured         = storage.NewTable[configuredRecord]("identity_configured")       // person id; those of the configuration
	NoticeTimes        = storage.NewTable[NoticeTimeRecord]("identity_noticed")          // person id
	blockEnds          = storage.NewTable[struct{}]("identity_block_end")                // end of a block, person id
)

// The groups of partitions other than the default one have names of their own.
var partitionGroupNames = storage.NewTable[string]("identity_partition_group_name") // partition, group name; the value is its id

// Record is everything that tokens and headers say about a person, in one small record that frequent requests read
// once. Passwords and identities are separate records.
type Record struct {
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
	// External is the key in Identities of a person that a header provider has created.
	External string `cbor:"13,keyasint,omitempty"`
	// Claims are the standard claims without a member above, such as phone_number.
	Claims    map[string]string `cbor:"14,keyasint,omitempty"`
	Partition string            `cbor:"15,keyasint,omitempty"` // empty: the default one
	// Awaits says that an inactive person can activate the account, and which welcome message they get then.
	Awaits Welcome `cbor:"16,keyasint,omitempty"`
	// BlockedUntil is the time when a block ends by itself. Zero: it does not
	BlockedUntil time.Time `cbor:"17,keyasint,omitzero"`
	// Was is the state before the block, which the person has again after it. Empty: Active
	Was State `cbor:"18,keyasint,omitempty"`
	// Assurance is the evidence of the person's identity. Only package assurance writes it.
	Assurance authn.Assurance `cbor:"19,keyasint,omitempty"`
}

// ProfileRecord is everything else that is stored of a person. For values that are in both, the Record is authoritative
// (see overlay).
type ProfileRecord struct {
	Profile   Profile   `cbor:"1,keyasint"`
	Directory Directory `cbor:"2,keyasint"`
}

// VerifyEmail marks an address of the profile as verified. It reports whether the profile has the address.
func (r *ProfileRecord) VerifyEmail(address string) (found bool) {
	p := r.Profile.Clone()
	for i := range p.EmailAddresses {
		if e := &p.EmailAddresses[i]; FoldEmail(e.Value) == FoldEmail(address) {
			e.Verified, e.Stated, found = true, false, true
		}
	}
	r.Profile = p
	return found
}

// groupRecord is a group of persons. Records of persons name their groups; a table has the members of a group.
type groupRecord struct {
	Name        string    `cbor:"1,keyasint"`
	ExternalID  string    `cbor:"2,keyasint,omitempty"`
	Permissions []string  `cbor:"3,keyasint,omitempty"`
	Members     int64     `cbor:"4,keyasint,omitempty"`
	CreatedAt   time.Time `cbor:"5,keyasint"`
	UpdatedAt   time.Time `cbor:"6,keyasint"`
	Version     int64     `cbor:"7,keyasint,omitempty"` // grows with each change, memberships included
	// Former is the name that records of members after Settled, by id, can still have after a rename. Removing says that
	// the group is being removed.
	Former   string `cbor:"8,keyasint,omitempty"`
	Removing bool   `cbor:"9,keyasint,omitempty"`
	Settled  string `cbor:"11,keyasint,omitempty"`
	// Partition is empty for the default one.
	Partition string `cbor:"10,keyasint,omitempty"`
}

// tallyRecord counts the persons of a partition.
type tallyRecord struct {
	Persons int64 `cbor:"1,keyasint"`
	Version int64 `cbor:"2,keyasint,omitempty"` // grows with each change of persons and their names
}

// NoticeTimeRecord is the time of a notice, which is not repeated too soon.
type NoticeTimeRecord struct {
	At time.Time `cbor:"1,keyasint"`
}

// UsernameRecord makes a username unique: its key is the folded name.
type UsernameRecord struct {
	PersonID string `cbor:"1,keyasint"`
}

// PasswordRecord is the slow hash of a password, in PHC form.
type PasswordRecord struct {
	PHC       string    `cbor:"1,keyasint"`
	ChangedAt time.Time `cbor:"2,keyasint"`
	// SetBy is the audit.Actor.Untrusted of the actor who has set it. If it is not empty, the password does not sign in
	// anyone with a role in the admin console.
	SetBy string `cbor:"3,keyasint,omitempty"`
}

// configuredRecord is a person of the configuration.
type configuredRecord struct {
	// Compared says whether the password of the configuration is the stored one (see compared). nil: not compared
	Compared []byte `cbor:"1,keyasint,omitempty"`
}

// IdentityRecord links an identity at a provider to a person.
type IdentityRecord struct {
	PersonID string `cbor:"1,keyasint"`
	// Issuer and Subject are empty if the key is that of a folded username.
	Issuer  string    `cbor:"2,keyasint,omitempty"`
	Subject string    `cbor:"3,keyasint,omitempty"`
	Since   time.Time `cbor:"4,keyasint,omitempty"`
	// Form is the form in which the provider named the person at the last sign-in, Stable the key in stableNames by which
	// the identity is found when the provider uses another form. Both can be empty.
	Form   string `cbor:"5,keyasint,omitempty"`
	Stable string `cbor:"6,keyasint,omitempty"`
	// Vouched says that an API client has linked the identity, or opened the session in which it was linked, or that SetBy
	// has brought it by a merge.
	Vouched bool   `cbor:"7,keyasint,omitempty"`
	SetBy   string `cbor:"8,keyasint,omitempty"` // an audit.Actor.Untrusted. Empty: no one, or an API client
}

// Locales returns the languages that the person has chosen.
func (r *Record) Locales() []string { return TheOnly(r.Locale) }
