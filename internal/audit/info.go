package audit

import "cmp"

// Info is an event on the wire. (identity service document, EventInfo)
type Info struct {
	EventIdentifier string `json:"event_identifier"`
	PersonID        string `json:"person_id,omitempty"` // empty if no person is concerned
	Occurred        int64  `json:"occurred"`            // milliseconds since 1970
	EventType       string `json:"event_type"`
	EventName       string `json:"event_name"`
	ClientIP        string `json:"client_ip"`
	UserAgent       string `json:"user_agent"`
	PartitionID     string `json:"partition_id"`
	EventAgentUser  string `json:"event_agent_user"` // the actor's name, or its id if the name is unknown
	Reason          string `json:"reason,omitempty"`
	OrganisationID  string `json:"organisation_id,omitempty"` // whose API client has caused it
	Ref             string `json:"ref,omitempty"`             // of the refusal that it tells of (docs/decisions/operation.md#refusals)
}

// Info returns the event in the form in which others receive it.
func (e Event) Info() Info {
	return Info{
		EventIdentifier: e.ID, PersonID: e.PersonID, Occurred: e.Occurred.UnixMilli(), EventType: e.Type, EventName: e.Name, ClientIP: e.ClientIP,
		UserAgent: e.UserAgent, PartitionID: cmp.Or(e.Partition, DefaultPartition), EventAgentUser: cmp.Or(e.AgentUser, e.Actor),
		Reason: e.Reason, OrganisationID: e.Organisation, Ref: e.Ref,
	}
}
