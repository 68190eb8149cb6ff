package login

import "time"

// Application is what a person has given to a client.
type Application struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Owner  string    `json:"owner,omitempty"` // host that it is at, or the scheme of an app. Empty: unknown
	Scopes []Scope   `json:"scopes"`
	Since  time.Time `json:"since"`          // the first time that is known
	Last   time.Time `json:"last,omitzero"`  // the last sign-in that it still lives on. Zero: none
	Until  time.Time `json:"until,omitzero"` // when the last of its tokens ends. Zero: it has none
}

// Scope is one thing that an application may.
type Scope struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Unlinked says that a client has lost all that a person had given to it.
type Unlinked struct {
	Person           string // the person's id
	Subject          string // by which the client knows the person
	ClientID, Client string // id and name
	At               time.Time
}
