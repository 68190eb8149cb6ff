package ssf

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// kind is the type of a security event, as it is stored.
type kind int

const (
	sessionRevoked kind = iota + 1
	credentialChange
	claimsChange
	levelChange
	accountDisabled
	accountEnabled
	accountPurged
	verification
)

// uris are the event types on the wire. (OpenID CAEP 1.0, 3; OpenID RISC Profile 1.0, 2; OpenID SSF 1.0, 8.1.4.1)
var uris = map[kind]string{ //nolint:gosec // no credentials
	sessionRevoked:   "https://schemas.openid.net/secevent/caep/event-type/session-revoked",
	credentialChange: "https://schemas.openid.net/secevent/caep/event-type/credential-change",
	claimsChange:     "https://schemas.openid.net/secevent/caep/event-type/token-claims-change",
	levelChange:      "https://schemas.openid.net/secevent/caep/event-type/assurance-level-change",
	accountDisabled:  "https://schemas.openid.net/secevent/risc/event-type/account-disabled",
	accountEnabled:   "https://schemas.openid.net/secevent/risc/event-type/account-enabled",
	accountPurged:    "https://schemas.openid.net/secevent/risc/event-type/account-purged",
	verification:     "https://schemas.openid.net/secevent/ssf/event-type/verification",
}

// supported are the kinds that a receiver can ask for. A verification belongs to the stream itself.
var supported = []kind{sessionRevoked, credentialChange, claimsChange, levelChange, accountDisabled, accountEnabled, accountPurged}

// eventMapping are the signals to receivers for one of our events.
type eventMapping struct {
	kind       kind
	credential string // "": the reason of the event names the method
	change     string
}

// tells leads from the types of our events to what receivers are told.
var tells = map[string][]eventMapping{
	"session.SessionsEndedEvent":      {{kind: sessionRevoked}},
	"person.PersonBlockedEvent":       {{kind: accountDisabled}, {kind: sessionRevoked}},
	"person.PersonDeactivatedEvent":   {{kind: accountDisabled}, {kind: sessionRevoked}},
	"person.PersonActivatedEvent":     {{kind: accountEnabled}},
	"person.PersonRemovedEvent":       {{kind: accountPurged}, {kind: sessionRevoked}},
	"person.PersonUpdatedEvent":       {{kind: claimsChange}},
	"person.PasswordChangedEvent":     {{kind: credentialChange, credential: "password", change: "update"}, {kind: sessionRevoked}},
	"person.PasswordResetEvent":       {{kind: credentialChange, credential: "password", change: "update"}, {kind: sessionRevoked}},
	"person.PasskeyAddedEvent":        {{kind: credentialChange, credential: "fido2-platform", change: "create"}},
	"person.PasskeyRemovedEvent":      {{kind: credentialChange, credential: "fido2-platform", change: "delete"}},
	"person.PINResetEvent":            {{kind: credentialChange, credential: "pin", change: "update"}},
	"person.StepUpMethodAddedEvent":   {{kind: credentialChange, change: "create"}},
	"person.StepUpMethodRemovedEvent": {{kind: credentialChange, change: "delete"}},
	"login.StepUpSucceededEvent":      {{kind: levelChange}},
}

// credentialOf translates the names of our methods. (OpenID CAEP 1.0, 3.3.1)
var credentialOf = map[string]string{
	"authenticator": "app", "push": "app", "pin": "pin", "sms": "phone-sms", "passkey": "fido2-platform",
}

// Who has caused an event. (OpenID CAEP 1.0, 2)
const (
	byUser   = "user"
	byAdmin  = "admin"
	bySystem = "system"
)

func initiator(e *audit.Event) string {
	switch e.Actor {
	case "":
		return bySystem
	case e.PersonID:
		return byUser
	}
	return byAdmin
}

// Add queues what the receivers are to be told of an event, in the transaction that appends it.
func (s *Service) Add(tx storage.Tx, e audit.Event) error {
	list := tells[e.Type]
	if len(list) == 0 || e.PersonID == "" {
		return nil
	}
	for _, t := range list {
		rec := itemRecord{Kind: t.kind, Person: e.PersonID, By: initiator(&e), Detail: t.credential, Change: t.change, At: e.Occurred}
		switch {
		case t.kind == levelChange:
			rec.Session = e.SessionID
		case t.kind == credentialChange && rec.Detail == "":
			if rec.Detail = credentialOf[e.Reason]; rec.Detail == "" {
				continue
			}
		}
		if err := s.queue(tx, e.ID+suffix[t.kind], rec); err != nil {
			return err
		}
	}
	return nil
}

// suffix makes ids of the security events that come of one of our events.
var suffix = map[kind]string{
	sessionRevoked: "-s", credentialChange: "-c", claimsChange: "-t", levelChange: "-l", accountDisabled: "-d",
	accountEnabled: "-e", accountPurged: "-p",
}

// SessionEnded queues that a session has ended, in the transaction that ends it.
func (s *Service) SessionEnded(tx storage.Tx, person, session string) error {
	return s.queue(tx, session+suffix[sessionRevoked], itemRecord{Kind: sessionRevoked, Person: person, Session: session})
}

// queue stores an item for each receiver that has asked for its kind.
func (s *Service) queue(tx storage.Tx, id string, rec itemRecord) error {
	if !s.cfg.On { // no one would send it, give it a time, or remove it
		return nil
	}
	for e, err := range streams.Scan(tx, storage.Range{Limit: mostStreams}) {
		if err != nil {
			return err
		}
		if e.Value.Status == disabled || !e.Value.wants(rec.Kind) {
			continue
		}
		if err := put(tx, e.Value.ID, id, rec); err != nil {
			return err
		}
	}
	s.look()
	return nil
}

// put stores an item of one stream.
func put(tx storage.Tx, stream, id string, rec itemRecord) error {
	var until time.Time // of an item without a time: the worker sets both
	if !rec.At.IsZero() {
		until = rec.At.Add(kept)
	}
	return items.Put(tx, storage.Key(stream, id), rec, until)
}
