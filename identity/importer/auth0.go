package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// auth0Reader reads the users that Auth0 exports as lines of JSON, with the hashes of the file that its support sends.
// (Auth0, "Bulk User Exports", "User Migration")
type auth0Reader struct {
	lines
	hashes map[string]string // by user id, and by e-mail address where the file has no id
}

// newAuth0 returns a reader of the users, whose hashes readAuth0Hashes has read.
func newAuth0(r io.Reader, hashes map[string]string) Reader {
	return &auth0Reader{lines{in: bufio.NewReader(r)}, hashes}
}

// auth0User is a line of either file.
type auth0User struct {
	ID struct {
		OID string `json:"$oid"`
	} `json:"_id"`
	UserID        string         `json:"user_id"`
	Username      string         `json:"username"`
	Email         string         `json:"email"`
	EmailVerified *bool          `json:"email_verified"`
	Name          string         `json:"name"`
	GivenName     string         `json:"given_name"`
	FamilyName    string         `json:"family_name"`
	Phone         string         `json:"phone_number"`
	Blocked       bool           `json:"blocked"`
	PasswordHash  string         `json:"passwordHash"`
	UserMetadata  map[string]any `json:"user_metadata"`
	AppMetadata   map[string]any `json:"app_metadata"`
	Multifactor   []any          `json:"multifactor"`
	Identities    []struct {
		Connection string `json:"connection"`
		Provider   string `json:"provider"`
		Social     bool   `json:"isSocial"`
	} `json:"identities"`
}

// auth0Members are the members of a user that are read, and those that say when and where they have signed in there.
var auth0Members = []string{
	"_id", "user_id", "username", "email", "email_verified", "name", "given_name", "family_name", "phone_number", "blocked", "passwordHash",
	"user_metadata", "app_metadata",
	"multifactor", "identities", "tenant", "created_at", "updated_at", "last_login", "last_ip", "logins_count", "last_password_reset",
}

// readAuth0Hashes reads the hashes that Auth0's support sends, for a reader of the users.
func readAuth0Hashes(r io.Reader) (map[string]string, error) {
	hashes, in := map[string]string{}, lines{in: bufio.NewReader(r)}
	for {
		raw, err := in.next()
		switch {
		case errors.Is(err, io.EOF):
			return hashes, nil
		case err != nil:
			return nil, err
		case len(raw) == 0:
			continue
		}
		var u auth0User
		if err := json.Unmarshal(raw, &u); err != nil {
			return nil, &LineError{in.number, notOf("Auth0", err)}
		}
		if u.PasswordHash == "" {
			continue
		}
		if u.ID.OID != "" {
			hashes["auth0|"+u.ID.OID] = u.PasswordHash
		} else if u.Email != "" {
			hashes[strings.ToLower(u.Email)] = u.PasswordHash
		}
	}
}

// Next implements Reader.
func (a *auth0Reader) Next() (p Person, line int, err error) {
	for {
		raw, err := a.next()
		if err != nil {
			return p, a.number, err
		}
		if len(raw) == 0 {
			continue
		}
		var u auth0User
		if err := json.Unmarshal(raw, &u); err != nil {
			return p, a.number, &LineError{a.number, notOf("Auth0", err)}
		}
		if p = a.person(&u); p.Username == "" {
			return p, a.number, &LineError{a.number, "the user has neither username nor email"}
		}
		p.noteRest(raw, auth0Members)
		return p, a.number, nil
	}
}

func (a *auth0Reader) person(u *auth0User) Person {
	p := Person{
		Username: u.Username, Email: u.Email, EmailVerified: u.EmailVerified, GivenName: u.GivenName, FamilyName: u.FamilyName,
		Inactive: u.Blocked, ExternalID: u.UserID, PasswordHash: u.PasswordHash,
	}
	if p.Username == "" {
		p.Username = u.Email
	}
	if u.Name != u.Email {
		p.Name = u.Name // without a name Auth0 writes the address
	}
	if p.PasswordHash == "" {
		p.PasswordHash = a.hashes[u.UserID]
	}
	if p.PasswordHash == "" && strings.HasPrefix(u.UserID, "auth0|") { // a user of another provider can have the same address
		p.PasswordHash = a.hashes[strings.ToLower(u.Email)]
	}
	if u.Phone != "" {
		p.profile().PhoneNumbers = []person.PhoneNumber{{Value: u.Phone, Tag: "mobile"}}
	}
	for _, k := range slices.Sorted(maps.Keys(u.UserMetadata)) {
		switch v := u.UserMetadata[k].(type) {
		case string:
			p.custom(k, v)
		default:
			p.note("user_metadata." + k + " is no text and does not come")
		}
	}
	if len(u.AppMetadata) > 0 {
		p.note("app_metadata does not come")
	}
	if len(u.Multifactor) > 0 {
		p.note("second factors do not come: the person sets up new ones")
	}
	for _, id := range u.Identities {
		if id.Social || id.Provider != "" && id.Provider != "auth0" {
			p.note("the link with " + id.Connection + " does not come: it is made again when the person signs in there")
		}
	}
	if p.PasswordHash == "" {
		p.note("comes without a password")
	}
	return p
}
