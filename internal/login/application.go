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
