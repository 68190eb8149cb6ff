package person

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of persons.
var (
	EventCreated    = audit.Type{Type: "person.PersonCreatedEvent", Name: "Person Created", Counts: audit.CountNew}
	EventActivated  = audit.Type{Type: "person.PersonActivatedEvent", Name: "Person Activated"}
	personInactive  = audit.Type{Type: "person.PersonDeactivatedEvent", Name: "Person Deactivated"}
	personBlocked   = audit.Type{Type: "person.PersonBlockedEvent", Name: "Person Blocked"}
	personRemoved   = audit.Type{Type: "person.PersonRemovedEvent", Name: "Person Removed"}
	EventUpdated    = audit.Type{Type: "person.PersonUpdatedEvent", Name: "Person Updated"}
	groupCreated    = audit.Type{Type: "group.GroupCreatedEvent", Name: "Group Created"}
	groupUpdated    = audit.Type{Type: "group.GroupUpdatedEvent", Name: "Group Updated"}
	groupRemoved    = audit.Type{Type: "group.GroupRemovedEvent", Name: "Group Removed"}
	passwordChanged = audit.Type{Type: "person.PasswordChangedEvent", Name: "Password Changed"}
	breachUnknown   = audit.Type{Type: "password.BreachCheckUnavailableEvent", Name: "Breach Check Unavailable"}
	SessionsEnded   = audit.Type{Type: "session.SessionsEndedEvent", Name: "Sessions Ended"}
)

// stateEvents are the events of the states that a person can be set to.
var stateEvents = map[State]audit.Type{Active: EventActivated, Inactive: personInactive, Blocked: personBlocked}

// NewEvents makes one event of each kind, before a transaction that appends the ones it needs.
func (s *Service) NewEvents(from audit.Origin, kinds ...audit.Type) ([]audit.Event, error) {
	out := make([]audit.Event, len(kinds))
	for i, k := range kinds {
		e, err := s.deps.Events.New(k, from)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}
