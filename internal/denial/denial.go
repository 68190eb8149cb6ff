// Package denial explains refusals: it has the closed list of reasons, the reference that a page or response shows, and
// a record for one day from which an operator learns who was refused what, and why.
package denial

import (
	"encoding/base32"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Where someone was refused.
const (
	Site   = "site"
	SignIn = "sign_in"
	StepUp = "step_up"
	OAuth  = "oauth"
	API    = "api"
	Page   = "page" // of Gatehouse itself
)

// Refusal is one refusal. It holds nothing secret: no token, code, password or query, and no name that was typed and
// belongs to no one, since people type passwords there.
type Refusal struct {
	Ref    string    `cbor:"1,keyasint" json:"ref"`
	At     time.Time `cbor:"2,keyasint" json:"time"`
	Where  string    `cbor:"3,keyasint" json:"where"`
	Reason Reason    `cbor:"4,keyasint" json:"reason"`
	// Detail says more than the reason. It is written by us, never by the caller.
	Detail string `cbor:"5,keyasint,omitempty" json:"detail,omitempty"`
	Status int    `cbor:"6,keyasint,omitempty" json:"status,omitempty"` // of HTTP
	Code   string `cbor:"7,keyasint,omitempty" json:"error,omitempty"`  // error code of the answer

	Site   string `cbor:"8,keyasint,omitempty" json:"site,omitempty"`   // host
	Method string `cbor:"9,keyasint,omitempty" json:"method,omitempty"` // of HTTP
	Path   string `cbor:"10,keyasint,omitempty" json:"path,omitempty"`

	PersonID  string `cbor:"11,keyasint,omitempty" json:"person_id,omitempty"`
	Username  string `cbor:"12,keyasint,omitempty" json:"username,omitempty"` // of PersonID
	Partition string `cbor:"13,keyasint,omitempty" json:"partition,omitempty"`
	ClientID  string `cbor:"14,keyasint,omitempty" json:"client_id,omitempty"`
	Provider  string `cbor:"15,keyasint,omitempty" json:"provider,omitempty"`
	By        string `cbor:"16,keyasint,omitempty" json:"by,omitempty"` // method of a sign-in or step-up

	WantedGroups []string `cbor:"17,keyasint,omitempty" json:"wanted_groups,omitempty"`
	Groups       []string `cbor:"18,keyasint,omitempty" json:"groups,omitempty"`
	WantedScopes []string `cbor:"19,keyasint,omitempty" json:"wanted_scopes,omitempty"`
	Scopes       []string `cbor:"20,keyasint,omitempty" json:"scopes,omitempty"`
	WantedLevel  int      `cbor:"21,keyasint,omitempty" json:"wanted_level,omitempty"`
	Level        int      `cbor:"22,keyasint,omitempty" json:"level,omitempty"`
	// Scheme is http or https, of the Site. Empty: unknown.
	Scheme string `cbor:"26,keyasint,omitempty" json:"scheme,omitempty"`
	// RedirectHost is the host of a redirect URI that a client named.
	RedirectHost string `cbor:"23,keyasint,omitempty" json:"redirect_host,omitempty"`
	// RedirectURI is that URI without query and fragment, and Registered are those of the client. They are not logged.
	RedirectURI string   `cbor:"24,keyasint,omitempty" json:"redirect_uri,omitempty"`
	Registered  []string `cbor:"25,keyasint,omitempty" json:"registered_redirect_uris,omitempty"`
}

const (
	maxText = 256 // characters of a text that is kept
	maxList = 20  // groups or scopes that are kept
)

// trim bounds what comes from outside and puts it on one line.
func (f *Refusal) trim() {
	for _, s := range []*string{
		&f.Detail, &f.Code, &f.Site, &f.Method, &f.Path, &f.PersonID, &f.Username, &f.Partition, &f.ClientID, &f.Provider, &f.By,
		&f.RedirectHost, &f.RedirectURI,
	} {
		*s = clean(*s)
	}
	for _, list := range []*[]string{&f.WantedGroups, &f.Groups, &f.WantedScopes, &f.Scopes, &f.Registered} {
		if len(*list) == 0 {
			*list = nil
			continue
		}
		short := make([]string, 0, min(len(*list), maxList))
		for _, s := range (*list)[:min(len(*list), maxList)] {
			short = append(short, clean(s))
		}
		*list = short
	}
}

func clean(s string) string {
	if len(s) > 4*maxText {
		s = s[:4*maxText]
	}
	r := []rune(audit.Clean(s))
	return string(r[:min(len(r), maxText)])
}

// MarshalLogObject writes what is known, in the words of the JSON.
func (f *Refusal) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for _, e := range []struct{ key, value string }{
		{"ref", f.Ref},
		{"where", f.Where},
		{"reason", string(f.Reason)},
		{"detail", f.Detail},
		{"error", f.Code},
		{"site", f.Site},
		{"method", f.Method},
		{"path", f.Path},
		{"person_id", f.PersonID},
		{"username", f.Username},
		{"partition", f.Partition},
		{"client_id", f.ClientID},
		{"provider", f.Provider},
		{"by", f.By},
		{"redirect_host", f.RedirectHost},
	} {
		if e.value != "" {
			enc.AddString(e.key, e.value)
		}
	}
	for _, e := range []struct {
		key  string
		list []string
	}{{"wanted_groups", f.WantedGroups}, {"groups", f.Groups}, {"wanted_scopes", f.WantedScopes}, {"scopes", f.Scopes}} {
		if len(e.list) > 0 {
			zap.Strings(e.key, e.list).AddTo(enc)
		}
	}
	for _, e := range []struct {
		key string
		n   int
	}{{"status", f.Status}, {"wanted_level", f.WantedLevel}, {"level", f.Level}} {
		if e.n != 0 {
			enc.AddInt(e.key, e.n)
		}
	}
	return nil
}

// refBytes is the size of a reference: 40 bits, 8 letters and digits.
const refBytes = 5

// NewRef returns a reference that a person can read out and type, such as MZXW-6YTB. It is empty if there is no
// randomness.
func NewRef(random io.Reader) string {
	var b [refBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return ""
	}
	s := base32.StdEncoding.EncodeToString(b[:])
	return s[:4] + "-" + s[4:]
}

// ParseRef reads a reference as people type it: in either case, with or without the dash or with spaces, and with the
// digits that look like letters.
func ParseRef(typed string) (string, error) {
	s := strings.NewReplacer("-", "", " ", "", "0", "O", "1", "I", "8", "B").Replace(strings.ToUpper(strings.TrimSpace(typed)))
	if b, err := base32.StdEncoding.DecodeString(s); err != nil || len(b) != refBytes {
		return "", fmt.Errorf("want a reference such as MZXW-6YTB: 8 letters and digits")
	}
	return s[:4] + "-" + s[4:], nil
}
