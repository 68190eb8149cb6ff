// Package ceremony makes the options with which a page asks a browser for a passkey, in JSON. (Web Authentication Level
// 3, 5.1.10 and 5.1.11)
package ceremony

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
)

// options are the options of a request to a browser.
type options struct {
	Challenge        string       `json:"challenge"`
	Timeout          int64        `json:"timeout"` // milliseconds
	UserVerification string       `json:"userVerification,omitempty"`
	RPID             string       `json:"rpId,omitempty"`
	Allow            []descriptor `json:"allowCredentials,omitempty"`

	RP          *entity      `json:"rp,omitempty"`
	User        *entity      `json:"user,omitempty"`
	Parameters  []parameter  `json:"pubKeyCredParams,omitempty"`
	Selection   *selection   `json:"authenticatorSelection,omitempty"`
	Attestation string       `json:"attestation,omitempty"`
	Exclude     []descriptor `json:"excludeCredentials,omitempty"`
}

type entity struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
}

type descriptor struct {
	Type       string   `json:"type"`
	ID         string   `json:"id"`
	Transports []string `json:"transports,omitempty"`
}

type parameter struct {
	Type string `json:"type"`
	Alg  int64  `json:"alg"`
}

type selection struct {
	ResidentKey        string `json:"residentKey"`
	RequireResidentKey bool   `json:"requireResidentKey"`
	UserVerification   string `json:"userVerification"`
}

// Key is a passkey as browsers know it: its credential id, and how they reach it.
type Key struct {
	ID         []byte
	Transports []string
}

// Ask are the common members of both requests: the relying party, the challenge, and its validity.
type Ask struct {
	RPID, RPName string
	Challenge    []byte
	Life         time.Duration
}

// User is the owner of a new passkey, with the random handle that stands for them.
type User struct {
	Handle            []byte
	Name, DisplayName string
}

// Use returns the request for the use of one of the passkeys, or of any passkey when there are no keys.
func (a Ask) Use(keys []Key) string {
	return text(options{
		Challenge: encode(a.Challenge), Timeout: a.Life.Milliseconds(), RPID: a.RPID, UserVerification: "required", Allow: describe(keys),
	})
}

// Make returns the request for a new passkey: one that works without a username, on a device that has none of theirs.
func (a Ask) Make(u User, keys []Key, algorithms []protocol.CredentialParameter) string {
	return text(a.creation(u, keys, algorithms, "required"))
}

// Upgrade is Make for a passkey that the browser makes by itself after a password: it neither asks for the person's
// presence nor verifies them. (Web Authentication Level 3 5.1.3, conditional mediation)
func (a Ask) Upgrade(u User, keys []Key, algorithms []protocol.CredentialParameter) string {
	return text(a.creation(u, keys, algorithms, "preferred"))
}

func (a Ask) creation(u User, keys []Key, algorithms []protocol.CredentialParameter, verification string) options {
	var list []parameter
	for _, p := range algorithms {
		list = append(list, parameter{string(p.Type), int64(p.Algorithm)})
	}
	return options{
		Challenge: encode(a.Challenge), Timeout: a.Life.Milliseconds(), Attestation: "none", Parameters: list, Exclude: describe(keys),
		RP:        &entity{ID: a.RPID, Name: a.RPName},
		User:      &entity{ID: encode(u.Handle), Name: u.Name, DisplayName: u.DisplayName},
		Selection: &selection{ResidentKey: "required", RequireResidentKey: true, UserVerification: verification},
	}
}

// signals are messages of a page to the browser about passkeys, each the argument of its method. (Web Authentication
// Level 3 5.1.10)
type signals struct {
	Unknown *unknown  `json:"signalUnknownCredential,omitempty"`
	All     *accepted `json:"signalAllAcceptedCredentials,omitempty"`
	Names   *names    `json:"signalCurrentUserDetails,omitempty"`
}

type unknown struct {
	RPID string `json:"rpId"`
	ID   string `json:"credentialId"`
}

type accepted struct {
	RPID   string   `json:"rpId"`
	Handle string   `json:"userId"`
	IDs    []string `json:"allAcceptedCredentialIds"`
}

type names struct {
	RPID        string `json:"rpId"`
	Handle      string `json:"userId"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
}

// Unknown tells the browser that no one has a passkey, so it offers it no longer.
func Unknown(rpID string, credential []byte) string {
	return text(signals{Unknown: &unknown{rpID, encode(credential)}})
}

// Known tells the browser which passkeys of a person are accepted, and how the person is called now.
func Known(rpID string, u User, keys []Key) string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = encode(k.ID)
	}
	handle := encode(u.Handle)
	return text(signals{All: &accepted{rpID, handle, ids}, Names: &names{rpID, handle, u.Name, u.DisplayName}})
}

func describe(keys []Key) (out []descriptor) {
	for _, k := range keys {
		out = append(out, descriptor{"public-key", encode(k.ID), k.Transports})
	}
	return out
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "{}" // impossible: there are only texts and numbers
	}
	return string(raw)
}
