package authn

import "time"

// Application is the access that a person has given to a client.
type Application struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Owner  string    `json:"owner,omitempty"` // its host, or the scheme of an app. Empty: unknown
	Start  string    `json:"start,omitempty"` // where a sign-in there begins. Empty: unknown
	Scopes []Scope   `json:"scopes"`
	Since  time.Time `json:"since"`          // the earliest known sign-in
	Last   time.Time `json:"last,omitzero"`  // the latest sign-in that still gives access. Zero: none
	Until  time.Time `json:"until,omitzero"` // when its last token ends. Zero: it has no token
}

// Scope is one permission of an application.
type Scope struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Unlinked says that a client has lost all access that a person had given it.
type Unlinked struct {
	Person           string // the person's id
	Subject          string // the client's id for the person
	ClientID, Client string // id and name
	At               time.Time
}
