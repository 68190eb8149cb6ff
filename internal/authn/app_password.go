package authn

import (
	"errors"
	"time"
)

// AppPassword is a password that a person has made for one program, for some sites. It is shown once.
type AppPassword struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Sites  []string  `json:"sites"`
	Scopes []string  `json:"scopes"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	// Limit is the maximum number of uses, 0: without limit. Count is how often it was, without the last minute.
	Limit int `json:"usage_limit,omitempty"`
	Count int `json:"usage_count,omitempty"`
	// Last is the time of the last use, as far as it is written: with further uses from there, to the minute. Zero:
	// never.
	Last        time.Time `json:"last,omitzero"`
	LastAddress string    `json:"last_address,omitempty"`
	LastSite    string    `json:"last_site,omitempty"`
}

// AppPasswordSite is a site that accepts app passwords, with the scopes that it asks for.
type AppPasswordSite struct {
	Origin string
	Scopes []Scope
}

// AppPasswordRequest is the choice of a person, with the sign-in in which they make it.
type AppPasswordRequest struct {
	Person, Name  string
	Sites, Scopes []string
	Life          time.Duration
	Limit         int // 0: without limit

	AuthTime time.Time
	Level    int
	AMR      []string
	Provider string
	Vouched  bool // as in Result
}

// ErrNotOffered says that a site or scope is not, or not any more, one that the person can choose.
var ErrNotOffered = errors.New("the site or scope is not offered")

// ErrTooManyAppPasswords says that the person has as many app passwords as one can have.
var ErrTooManyAppPasswords = errors.New("the person has too many app passwords")
