package login

import "time"

// Application is what a person has given to a client.
type Application struct {
	ID, Name string
	Owner    string // host that it is at, or the scheme of an app. Empty: unknown
	Scopes   []Scope
	Since    time.Time // the first time that is known
	Last     time.Time // the last sign-in that it still lives on. Zero: none
}

// Scope is one thing that an application may.
type Scope struct{ Name, Description string }
