// Package audit records what happens to people, clients and configuration, in the transaction of its cause: a
// successful operation has exactly one event, and a failed one has none. Many tokens of one client share an event
// (docs/decisions/events.md#events-of-many-tokens). Events are found by person and actor, sealed into a chain of
// blocks soon after, and deleted at the end of their retention (docs/adr/0002-event-chain.md).
package audit

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Type is a kind of event.
type Type struct {
	// Type names it on the wire and in storage; Name is its descriptive name.
	Type, Name string
	// Brief marks events that are kept only as long as tokens when they concern no person. They are not found by actor
	// and not passed on to others.
	Brief bool
	// Counts is the measure under which statistics count events of this kind: one of the constants. Empty: they are
	// not counted.
	Counts string
}

// What statistics count events as.
const (
	CountSignIn = "sign_ins"
	CountFailed = "failed_sign_ins"
	CountNew    = "new_accounts"
	CountActive = "activity" // of the person
)

// Event is one small operation. (identity service document, "Events API records")
type Event struct {
	ID        string    `cbor:"i"`
	Type      string    `cbor:"t"`
	Name      string    `cbor:"n"`
	Occurred  time.Time `cbor:"o"`
	PersonID  string    `cbor:"p,omitempty"` // the person it happened to
	Actor     string    `cbor:"a,omitempty"` // id of a person, API client or client
	AgentUser string    `cbor:"u,omitempty"` // the actor's name
	ClientID  string    `cbor:"c,omitempty"`
	SessionID string    `cbor:"s,omitempty"`
	ClientIP  string    `cbor:"ip,omitempty"`
	UserAgent string    `cbor:"ua,omitempty"`
	Partition string    `cbor:"pt,omitempty"` // "": DefaultPartition
	Reason    string    `cbor:"r,omitempty"`
	Ref       string    `cbor:"f,omitempty"`  // of the refusal that it tells of
	Provider  string    `cbor:"pv,omitempty"` // id of the identity provider of a sign-in
	// Organisation is the id of the organisation whose API client has caused the event. Empty: none
	Organisation string `cbor:"og,omitempty"`

	brief  bool                   // of its Type
	counts string                 // of its Type
	check  func(storage.Tx) error // of its actor. nil: nothing is checked
}

// Counts returns what statistics count an event as that New has made. Empty: it is not counted.
func (e *Event) Counts() string { return e.counts }

// Origin says from where a request came. The caller has already decided which proxies to believe.
type Origin struct {
	ClientIP, UserAgent string
	// Organisation is the id of the organisation that the API client of the request belongs to. Empty: none
	Organisation string
}

type organisationKey struct{}

// Belongs says for what follows of a request that its API client belongs to an organisation. PeerOrigin knows it
// then.
func Belongs(r *http.Request, organisation string) {
	*r = *r.WithContext(context.WithValue(r.Context(), organisationKey{}, organisation))
}

// OrganisationOf returns the organisation that the API client of a request belongs to, or "".
func OrganisationOf(ctx context.Context) string {
	id, _ := ctx.Value(organisationKey{}).(string)
	return id
}

// Self is the origin of what the server does by itself, at its start and in its workers. It is the default.
var Self = Origin{ClientIP: "127.0.0.1", UserAgent: "gatehouse"}

// Actor is the cause of an event: id, name, and the origin of the request. The zero value is the server itself.
type Actor struct {
	ID, Name string
	Origin   Origin
	// Session is the actor's own session, which a change of the own password leaves alive. Empty: none.
	Session string
	// Reason is why the actor does it, for events that have no reason of their own. Empty: not said
	Reason string
	// BelowOwner says that the actor is an administrator who is not an owner: what they say of addresses proves
	// nothing.
	BelowOwner bool
	// BelowRoles says that the actor is a program that is not an administrator, such as an API client: it gives no
	// role in the admin console, and does not get into the account of a person with one.
	BelowRoles bool
	// Vouched names someone Untrusted on whose word alone the actor was signed in. Empty: no one
	Vouched string
	// Check is called in the transaction of each event of the actor. An error undoes what has caused the event, such
	// as when the actor has lost the right to it meanwhile. nil: nothing is checked
	Check func(tx storage.Tx) error
}

// Untrusted returns the name of an actor by whose word no one gets into the account of a person with a role in the
// admin console: a program, an administrator below owner, and who has no more than the word of one of them. "" for
// anyone else.
func (a Actor) Untrusted() string {
	if a.BelowOwner || a.BelowRoles {
		return cmp.Or(a.Name, a.ID)
	}
	return a.Vouched
}

// Fill returns e as an event of the actor about a person.
func (a Actor) Fill(e Event, personID, reason string) Event {
	e.PersonID, e.Actor, e.AgentUser, e.SessionID, e.Reason = personID, a.ID, a.Name, a.Session, cmp.Or(reason, Clean(a.Reason))
	e.check = a.Check
	return e
}

// PeerOrigin is the origin of a request when no proxy is trusted: the peer of its connection.
func PeerOrigin(r *http.Request) Origin {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return Origin{ClientIP: host, UserAgent: r.UserAgent(), Organisation: OrganisationOf(r.Context())}
}

// DefaultPartition is the partition of all persons while partitions are off.
const DefaultPartition = "default"

const (
	maxText = 512 // characters of a user agent, name or reason that are kept
	maxWho  = 256 // bytes of an id or partition: some are parts of keys
)

// Recorder makes and appends events. Its fields are set once, before its first use.
type Recorder struct {
	Random io.Reader
	Now    func() time.Time
	// Also is called in the transaction of each event that is passed on to others. nil: events are not passed on.
	Also func(tx storage.Tx, at Ref, e Event) error
	// PartitionOf returns the partition of a person, for events that do not name one. nil: DefaultPartition
	PartitionOf func(tx storage.Tx, person string) (string, error)
	// Note is called in the transaction of each event that statistics count or that concerns a person. nil: no one is
	// told.
	Note func(tx storage.Tx, e Event) error
	// Lane returns the lane of this node, in which its events are numbered. Two nodes in one lane lose nothing; they
	// only wait for each other. nil: the first
	Lane func() int
}

// New returns an event of this kind that occurs now, with a new identifier (UUIDv7, RFC 9562). Call it before the
// transaction.
func (r *Recorder) New(kind Type, from Origin) (Event, error) {
	id, err := uuid.NewV7FromReader(r.Random)
	if err != nil {
		return Event{}, err
	}
	if from == (Origin{}) {
		from = Self
	}
	return Event{
		ID: id.String(), Type: kind.Type, Name: kind.Name, Occurred: r.Now(), Partition: DefaultPartition, brief: kind.Brief, counts: kind.Counts,
		ClientIP: from.ClientIP, UserAgent: Clean(from.UserAgent), Organisation: from.Organisation,
	}, nil
}

// By returns an event that an actor causes. See New.
func (r *Recorder) By(kind Type, by Actor) (Event, error) {
	e, err := r.New(kind, by.Origin)
	return by.Fill(e, "", ""), err
}

// Append writes e to the end of its chain, and into the indexes by person and by actor, in tx.
func (r *Recorder) Append(tx storage.Tx, e Event) error {
	if e.check != nil {
		if err := e.check(tx); err != nil {
			return err
		}
	}
	e.Reason, e.AgentUser = Clean(e.Reason), Clean(e.AgentUser)
	e.PersonID, e.Actor, e.ClientID, e.SessionID = cut(e.PersonID), cut(e.Actor), cut(e.ClientID), cut(e.SessionID)
	if e.Partition = cut(e.Partition); e.Partition == "" {
		e.Partition = DefaultPartition
	}
	if e.PersonID != "" && e.Partition == DefaultPartition && r.PartitionOf != nil {
		var err error
		if e.Partition, err = r.PartitionOf(tx, e.PersonID); err != nil {
			return err
		}
	}
	if r.Note != nil && (e.counts != "" || e.PersonID != "") {
		if err := r.Note(tx, e); err != nil {
			return err
		}
	}
	c := Chain{Partition: e.Partition, Brief: e.brief && e.PersonID == ""}
	if r.Lane != nil {
		c.Lane = r.Lane()
	}
	n, err := c.next(tx)
	if err != nil {
		return err
	}
	rec, at := record{Event: e}, Ref{Number: n, Lane: c.Lane}
	if c.Partition != DefaultPartition {
		at.Partition = c.Partition
	}
	if !c.Brief {
		if err := rec.addToIndexes(tx, at); err != nil {
			return err
		}
	}
	// Put, not Create: the number is new, and Create would cost every writer a read.
	if err := events.Put(tx, c.at(n), rec, never); err != nil {
		return err
	}
	if c.Brief || r.Also == nil {
		return nil
	}
	return r.Also(tx, at, e)
}

// cut bounds an id, between two characters: a record with half of one could not be read.
func cut(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= maxWho {
		return s
	}
	end := maxWho
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Clean makes text from outside fit on one line of a log or record: control characters become spaces, invalid UTF-8
// becomes replacement characters, and the text is cut after 512 characters.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	out := make([]rune, 0, min(len(s), maxText))
	for _, c := range s {
		if len(out) == maxText {
			break
		}
		if c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) || c == 0x2028 || c == 0x2029 {
			c = ' '
		}
		out = append(out, c)
	}
	return string(out)
}

// isPlain reports whether s is short and printable ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= maxText
}
