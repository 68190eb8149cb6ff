package person

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of persons.
var (
	EventCreated    = event.Type{Type: "person.PersonCreatedEvent", Name: "Person Created", Counts: event.CountNew}
	EventActivated  = event.Type{Type: "person.PersonActivatedEvent", Name: "Person Activated"}
	personInactive  = event.Type{Type: "person.PersonDeactivatedEvent", Name: "Person Deactivated"}
	personBlocked   = event.Type{Type: "person.PersonBlockedEvent", Name: "Person Blocked"}
	personRemoved   = event.Type{Type: "person.PersonRemovedEvent", Name: "Person Removed"}
	EventUpdated    = event.Type{Type: "person.PersonUpdatedEvent", Name: "Person Updated"}
	groupCreated    = event.Type{Type: "group.GroupCreatedEvent", Name: "Group Created"}
	groupUpdated    = event.Type{Type: "group.GroupUpdatedEvent", Name: "Group Updated"}
	groupRemoved    = event.Type{Type: "group.GroupRemovedEvent", Name: "Group Removed"}
	passwordChanged = event.Type{Type: "person.PasswordChangedEvent", Name: "Password Changed"}
	breachUnknown   = event.Type{Type: "password.BreachCheckUnavailableEvent", Name: "Breach Check Unavailable"}
	SessionsEnded   = event.Type{Type: "session.SessionsEndedEvent", Name: "Sessions Ended"}
)

// stateEvents are the events of the states that a person can be set to.
var stateEvents = map[State]event.Type{Active: EventActivated, Inactive: personInactive, Blocked: personBlocked}

// NewEvents makes one event of each kind, before a transaction that appends the ones it needs.
func (s *Service) NewEvents(from event.Origin, kinds ...event.Type) ([]event.Event, error) {
	out := make([]event.Event, len(kinds))
	for i, k := range kinds {
		e, err := s.events.New(k, from)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}
