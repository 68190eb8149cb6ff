// Package importer reads people from the files of other systems: CSV, JSON lines, LDIF, htpasswd, and the exports of
// Keycloak, Authelia, authentik, Auth0 and Dex. It reads one person at a time, so a file can have any length. Package
// ldapmigration stores them.
package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// Person is one person of a file, as the import takes it. The password is readable here, unlike in identity.
type Person struct {
	Username      string          `json:"username"`
	Password      string          `json:"password,omitempty"`
	PasswordHash  string          `json:"password_hash,omitempty"`
	Name          string          `json:"name,omitempty"`
	GivenName     string          `json:"given_name,omitempty"`
	FamilyName    string          `json:"family_name,omitempty"`
	Email         string          `json:"email,omitempty"`
	EmailVerified *bool           `json:"email_verified,omitempty"`
	Groups        []string        `json:"groups,omitempty"`
	Locale        string          `json:"locale,omitempty"`
	Partition     string          `json:"partition,omitempty"`
	Inactive      bool            `json:"inactive,omitempty"`
	ExternalID    string          `json:"external_id,omitempty"`
	ID            string          `json:"id,omitempty"` // that the person keeps
	Profile       *person.Profile `json:"profile,omitempty"`

	// Notes say what the other system has of the person that does not come. They repeat no secret.
	Notes []string `json:"-"`
}

// Reader reads the persons of a file, one after the other.
type Reader interface {
	// Next returns the next person and the line where it begins, io.EOF after the last. A *LineError is about one
	// person: the next call goes on after it. Any other error is the end.
	Next() (p Person, line int, err error)
}

// Skipper is a Reader that skips entries other than persons, and counts them.
type Skipper interface{ Skipped() int }

// LineError says what is wrong with the person that begins on a line. It repeats no value.
type LineError struct {
	Line    int
	Problem string
}

func (e *LineError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Problem }

// notOf is the problem of a user that is not as a system writes it.
func notOf(system string, err error) string {
	problem := strictjson.WrongType(err)
	wrong := new(yaml.TypeError)
	if errors.As(err, &wrong) { // in `line 3: cannot unmarshal !!str `x` into bool` the value may be secret
		problem = typed.ReplaceAllString(strings.Join(wrong.Errors, "; "), "$1 must not be of the type $2 but $3")
	}
	return strings.TrimSuffix("the user is not as "+system+" writes it: "+problem, ": ")
}

var typed = regexp.MustCompile("(?s)(line \\d+): cannot unmarshal !!(\\w+)(?: `.*?`)? into (\\S+)")

// The formats.
const (
	CSV      = "csv"
	JSONL    = "jsonl"
	LDIF     = "ldif"
	Htpasswd = "htpasswd"
	Authelia = "authelia"
	Auth0    = "auth0"
	Keycloak = "keycloak"
	Dex      = "dex"

	Authentik = "authentik"
)

// FormatOf returns the format by the extension of a file name, or "".
func FormatOf(name string) string {
	switch name = strings.ToLower(name); {
	case strings.HasSuffix(name, ".csv"):
		return CSV
	case strings.HasSuffix(name, ".jsonl"), strings.HasSuffix(name, ".ndjson"), strings.HasSuffix(name, ".jsonlines"):
		return JSONL
	case strings.HasSuffix(name, ".ldif"), strings.HasSuffix(name, ".ldf"):
		return LDIF
	}
	return ""
}

// New returns a reader of a format.
func New(r io.Reader, format string) (Reader, error) {
	b := bufio.NewReader(r)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" { // as spreadsheets write it
		b.Discard(3) //nolint:errcheck // they are there
	}
	switch format {
	case CSV:
		return newCSV(b)
	case JSONL:
		return newJSONL(b), nil
	case LDIF:
		return newLDIF(b, time.Now()), nil
	case Htpasswd:
		return newHtpasswd(b), nil
	case Authelia:
		return newAuthelia(b)
	case Auth0:
		return &auth0Reader{lines: lines{in: b}}, nil
	case Keycloak:
		return newKeycloak(b)
	case Dex:
		return newDex(b)
	case Authentik:
		return newAuthentik(b)
	}
	return nil, fmt.Errorf("the format is not known: want %s, %s, %s, %s, %s, %s, %s, %s or %s", CSV, JSONL, LDIF, Htpasswd,
		Keycloak, Authelia, Authentik, Dex, Auth0)
}

// maxYAML is the size of a file that is read as a whole.
const maxYAML = 64 << 20

func readYAML(r io.Reader, into any) error {
	raw, err := io.ReadAll(io.LimitReader(r, maxYAML+1))
	if err != nil {
		return err
	}
	if len(raw) > maxYAML {
		return fmt.Errorf("the file has more than %d MiB", maxYAML>>20)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the file is not YAML: %w", err)
	}
	return nil
}

// maxRecord is the size in bytes of one person in a file.
const maxRecord = 256 << 10

var errTooLong = errors.New("one person takes more than 256 KiB: is a quotation mark not closed?")

// isHash distinguishes a hash from a plain password in formats that have one place for both.
func isHash(s string) bool {
	if strings.HasPrefix(s, "{") && strings.Contains(s, "}") {
		return true
	}
	for _, prefix := range []string{
		"$2a$", "$2b$", "$2y$", "$argon2", "$scrypt$", "$pbkdf2", "pbkdf2_", "$5$", "$6$", "$y$",
		"$apr1$", "$bcrypt-sha256$",
	} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// profile returns the profile of a person, and makes it if necessary.
func (p *Person) profile() *person.Profile {
	if p.Profile == nil {
		p.Profile = new(person.Profile)
	}
	return p.Profile
}

// address returns the one postal address of a person.
func (p *Person) address() *person.Address {
	prof := p.profile()
	if prof.Addresses == nil {
		prof.Addresses = []person.Address{{}}
	}
	return &prof.Addresses[0]
}

// custom adds an attribute of the operator's own.
func (p *Person) custom(name, value string) {
	p.profile().CustomAttributes = append(p.profile().CustomAttributes, person.CustomAttribute{Name: name, Value: value})
}

// noteRest notes the members of a JSON object that say something and that are not read.
func (p *Person) noteRest(raw []byte, read []string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch string(members[name]) {
		case "null", "false", "0", `""`, "[]", "{}":
			continue
		}
		if !slices.Contains(read, name) && person.IsText(name, 64) {
			p.note(name + " does not come")
		}
	}
}

func (p *Person) note(text string) { p.Notes = append(p.Notes, text) }

// lineCounter tells on which line of a file an offset is.
type lineCounter struct {
	from io.Reader
	read int64
	ends []int64 // offsets of ends of lines that no one has asked beyond
	done int     // ends that are not kept any more
}

func (c *lineCounter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	for i, ch := range b[:n] {
		if ch == '\n' {
			c.ends = append(c.ends, c.read+int64(i))
		}
	}
	c.read += int64(n)
	return n, err
}

// line returns the line of an offset, beginning with 1. Offsets only grow from call to call.
func (c *lineCounter) line(offset int64) int {
	n, _ := slices.BinarySearch(c.ends, offset)
	c.done += n
	c.ends = c.ends[n:]
	return c.done + 1
}
