package importer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// keycloakReader reads the users of a realm that Keycloak exports: the file of `kc.sh export --users same_file`, or one
// of `--users different_files`. (Keycloak 26, "Importing and exporting realms")
type keycloakReader struct {
	in      *json.Decoder
	at      *lineCounter
	within  bool // the array of users
	skipped int
}

// keycloakUser is a user as Keycloak writes them. (UserRepresentation)
type keycloakUser struct {
	ID              string               `json:"id"`
	Username        string               `json:"username"`
	FirstName       string               `json:"firstName"`
	LastName        string               `json:"lastName"`
	Email           string               `json:"email"`
	EmailVerified   bool                 `json:"emailVerified"`
	Enabled         *bool                `json:"enabled"`
	Attributes      map[string][]string  `json:"attributes"`
	Groups          []string             `json:"groups"`
	RealmRoles      []string             `json:"realmRoles"`
	ClientRoles     map[string][]string  `json:"clientRoles"`
	RequiredActions []string             `json:"requiredActions"`
	Credentials     []keycloakCredential `json:"credentials"`
	Identities      []struct {
		Provider string `json:"identityProvider"`
	} `json:"federatedIdentities"`
	ServiceAccount string `json:"serviceAccountClientId"`
	Federation     string `json:"federationLink"`
}

// keycloakCredential is a password or a second factor. Its parts are JSON in strings.
type keycloakCredential struct {
	Type   string `json:"type"`
	Secret string `json:"secretData"`
	Data   string `json:"credentialData"`
	// Temporary passwords must be changed at the next sign-in.
	Temporary bool `json:"temporary"`
}

// keycloakMembers are the members of a user that are read. The last ones say how Keycloak sees it.
var keycloakMembers = []string{
	"id", "username", "firstName", "lastName", "email", "emailVerified", "enabled", "attributes", "groups", "realmRoles", "clientRoles",
	"requiredActions", "credentials",
	"federatedIdentities", "serviceAccountClientId", "federationLink", "totp", "disableableCredentialTypes", "access",
	"self", "userProfileMetadata",
}

func newKeycloak(r io.Reader) (*keycloakReader, error) {
	at := &lineCounter{from: r}
	k := &keycloakReader{in: json.NewDecoder(at), at: at}
	return k, k.enter()
}

var errNoRealm = errors.New("the file is not a realm that Keycloak has exported (kc.sh export, or the partial export of its admin console)")

// enter goes on to the array of users.
func (k *keycloakReader) enter() error {
	realm := false
	for {
		t, err := k.in.Token()
		if errors.Is(err, io.EOF) && realm {
			return nil // it was exported without users
		}
		if errors.Is(err, io.EOF) {
			return errNoRealm
		}
		if err != nil {
			return k.notJSON(err)
		}
		if t == json.Delim('[') {
			return errors.New("the file has several realms: export one alone (kc.sh export --realm NAME)")
		}
		if t == json.Delim('{') {
			continue
		}
		if t == json.Delim('}') && realm {
			continue
		}
		name, ok := t.(string)
		if !ok {
			return errNoRealm
		}
		realm = realm || name == "realm" || name == "clients"
		if name != "users" {
			var skip json.RawMessage
			if err := k.in.Decode(&skip); err != nil {
				return k.notJSON(err)
			}
			continue
		}
		if t, err := k.in.Token(); err != nil || t != json.Delim('[') {
			return errNoRealm
		}
		k.within = true
		return nil
	}
}

// notJSON says where what cannot be read begins. The reader does not keep the text, so it may end some lines below.
func (k *keycloakReader) notJSON(err error) error {
	return fmt.Errorf("the file is not JSON from line %d on: %w", k.at.line(k.in.InputOffset()), err)
}

// Skipped implements Skipper. Accounts of clients are skipped: they are machines.
func (k *keycloakReader) Skipped() int { return k.skipped }

// Next implements Reader.
func (k *keycloakReader) Next() (p Person, line int, err error) {
	for k.within {
		if !k.in.More() {
			k.within = false
			if _, err := k.in.Token(); err != nil {
				return p, k.at.line(k.in.InputOffset()), fmt.Errorf("the file ends within its users: %w", err)
			}
			break
		}
		var raw json.RawMessage
		if err := k.in.Decode(&raw); err != nil {
			return p, k.at.line(k.in.InputOffset()), k.notJSON(err)
		}
		line = k.at.line(k.in.InputOffset() - int64(len(raw)))
		var u keycloakUser
		if err := json.Unmarshal(raw, &u); err != nil {
			return p, line, &LineError{line, notOf("Keycloak", err)}
		}
		if u.ServiceAccount != "" {
			k.skipped++
			continue
		}
		p, problem := u.person()
		if problem != "" {
			return p, line, &LineError{line, problem}
		}
		p.noteRest(raw, keycloakMembers)
		return p, line, nil
	}
	return p, k.at.line(k.in.InputOffset()), io.EOF
}

// person returns the person that a user becomes, or why none.
func (u *keycloakUser) person() (p Person, problem string) {
	if u.Username == "" {
		return p, "the user has no username"
	}
	p = Person{
		Username: u.Username, GivenName: u.FirstName, FamilyName: u.LastName, Email: u.Email, ID: strings.ToLower(u.ID),
		Inactive: u.Enabled != nil && !*u.Enabled, ExternalID: u.ID,
	}
	if !person.IsID(p.ID) {
		p.ID = ""
		p.note("gets a new id, since the old one is no UUID: applications see a new user")
	}
	if u.Email != "" {
		p.EmailVerified = &u.EmailVerified
	}
	for _, g := range u.Groups {
		p.Groups = append(p.Groups, strings.TrimPrefix(g, "/"))
	}
	for _, k := range slices.Sorted(maps.Keys(u.Attributes)) {
		u.attribute(&p, k)
	}
	for _, c := range u.Credentials {
		switch c.Type {
		case "password":
			hash, err := c.hash()
			if err != nil {
				p.note("comes without a password: " + err.Error())
			}
			if p.PasswordHash = hash; c.Temporary {
				p.note("the password is temporary there, and stays here until the person changes it")
			}
		case "otp":
			p.note("the authenticator app does not come: the person sets up a new one")
		case "webauthn", "webauthn-passwordless":
			p.note("passkeys do not come: they are bound to the address of the old server")
		default:
			p.note(c.Type + " does not come")
		}
	}
	for _, id := range u.Identities {
		p.note("the link with " + id.Provider + " does not come: it is made again when the person signs in there")
	}
	if roles := slices.DeleteFunc(slices.Clone(u.RealmRoles), func(r string) bool {
		return strings.HasPrefix(r, "default-roles-") || r == "offline_access" || r == "uma_authorization"
	}); len(roles) > 0 {
		p.note("roles do not come: make groups of those that applications ask for")
	}
	if len(u.ClientRoles) > 0 {
		p.note("roles of clients do not come: make groups of those that applications ask for")
	}
	for _, a := range u.RequiredActions {
		p.note("the required action " + a + " does not come")
	}
	if u.Federation != "" && p.PasswordHash == "" {
		p.note("signs in by a directory: set it up as a provider")
	}
	return p, ""
}

// attribute takes an attribute over.
func (u *keycloakUser) attribute(p *Person, name string) {
	values := slices.DeleteFunc(slices.Clone(u.Attributes[name]), func(v string) bool { return v == "" })
	if len(values) == 0 {
		return
	}
	switch name {
	case "locale":
		p.Locale = values[0]
	case "phoneNumber", "phone_number", "phone", "mobile":
		for _, v := range values {
			p.profile().PhoneNumbers = append(p.profile().PhoneNumbers, person.PhoneNumber{Value: v, Tag: "mobile"})
		}
	default:
		if p.custom(name, values[0]); len(values) > 1 {
			p.note("the attribute " + strconv.Quote(name) + " has several values, of which the first comes")
		}
	}
}

// hash returns the hash of a password in the form that is stored here.
func (c *keycloakCredential) hash() (string, error) {
	var sealed struct {
		Value string `json:"value"`
		Salt  string `json:"salt"`
	}
	var data struct {
		Iterations int                 `json:"hashIterations"`
		Algorithm  string              `json:"algorithm"`
		More       map[string][]string `json:"additionalParameters"`
	}
	if json.Unmarshal([]byte(c.Secret), &sealed) != nil || json.Unmarshal([]byte(c.Data), &data) != nil {
		return "", errors.New("its data is not JSON")
	}
	salt, err1 := base64.StdEncoding.DecodeString(sealed.Salt)
	sum, err2 := base64.StdEncoding.DecodeString(sealed.Value)
	if err1 != nil || err2 != nil || len(sum) == 0 {
		return "", errors.New("its salt or its hash is not Base64")
	}
	raw := base64.RawStdEncoding
	switch data.Algorithm {
	case "pbkdf2", "pbkdf2-sha256", "pbkdf2-sha512":
		return fmt.Sprintf("$%s$%d$%s$%s", data.Algorithm, data.Iterations, raw.EncodeToString(salt), raw.EncodeToString(sum)), nil
	case "argon2":
		one := func(name string) string { return strings.Join(data.More[name], ",") }
		if one("version") != "1.3" {
			return "", errors.New("its version of Argon2 is not 1.3")
		}
		return fmt.Sprintf("$argon2%s$v=19$m=%s,t=%d,p=%s$%s$%s", one("type"), one("memory"), data.Iterations, one("parallelism"),
			raw.EncodeToString(salt), raw.EncodeToString(sum)), nil
	}
	return "", fmt.Errorf("its algorithm %q is not known", data.Algorithm)
}
