package api

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
)

const (
	contextHeader = "X-Service-Flow-Context-Params"

	maxContext     = 2 << 10  // bytes of the header
	maxCredentials = 16 << 10 // bytes of a body
)

// credentialsRequest is the body of validate. (identity service document, "Credentials API")
type credentialsRequest struct {
	Username            *string `json:"username"`
	Password            *string `json:"password"`             // encrypted, in Base64
	EncryptionParameter *string `json:"encryption_parameter"` // initialization vector, in Base64
}

// handleValidate serves POST /api/credentials/validate (identity service document, "Credentials API"). The password is
// decrypted before anything is looked up, and the initialization vector is used up before any password is hashed.
func (a *API) handleValidate(w http.ResponseWriter, r *http.Request, client string) error {
	if err := a.slow(w, client); err != nil {
		return err
	}
	about, err := contextParams(r)
	if err != nil {
		return err
	}
	partition, err := a.partition(r, client)
	if err != nil {
		return err
	}
	var in credentialsRequest
	if err := parameters(jsonapi.Decode(w, r, maxCredentials, &in)); err != nil {
		return err
	}
	if err := present(map[string]*string{
		"username": in.Username, "password": in.Password,
		"encryption_parameter": in.EncryptionParameter,
	}); err != nil {
		return err
	}
	password, iv, err := a.opener.open(*in.Password, *in.EncryptionParameter)
	if err == nil {
		err = a.useIV(r.Context(), iv)
	}
	if err != nil {
		return encryption(err)
	}
	profile, err := a.deps.Identity.ValidateCredentials(r.Context(), identity.Credentials{
		Client: client, Partition: partition, Username: *in.Username, Password: password, Context: about, Origin: a.deps.Origin(r),
	})
	if err != nil {
		return refusedCredentials(w, err)
	}
	jsonapi.JSON(w, http.StatusOK, profile)
	return nil
}

// refusedCredentials returns the answer for refused credentials.
func refusedCredentials(w http.ResponseWriter, err error) error {
	state, missing, throttled := new(person.StateError), new(identity.MissingError), new(authn.ThrottledError)
	switch {
	case errors.Is(err, authn.ErrBadCredentials), errors.Is(err, person.ErrPlanted):
		return badCredentials()
	case errors.As(err, &throttled):
		ratelimit.RetryAfter(w, throttled.Wait)
		return passwordBlocked()
	case errors.As(err, &state) && state.State == person.Blocked:
		return personBlocked(http.StatusUnauthorized)
	case errors.As(err, &state):
		return personInactive()
	case errors.As(err, &missing):
		return attributesMissing(missing.AnyOf)
	case errors.As(err, new(*authn.Refusal)):
		return apiOff("credentials").With(err)
	}
	return err
}

// encryption returns the answer for errEncryption, and other errors as they are.
func encryption(err error) error {
	if errors.Is(err, errEncryption) {
		return badEncryption()
	}
	return err
}

// parameters returns the answer for a malformed body, with the code for parameters.
func parameters(err error) error {
	e := new(jsonapi.Error)
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest {
		return err
	}
	out := *e
	out.Code = codeParameter
	return &out
}

// present returns the error for required members that are absent or empty.
func present(members map[string]*string) error {
	var absent []jsonapi.Problem
	for _, name := range []string{"username", "password", "encryption_parameter", "token"} {
		if v, asked := members[name]; asked && (v == nil || *v == "") {
			absent = append(absent, jsonapi.Problem{Path: name, Problem: "is required"})
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return parameters(jsonapi.Invalid(absent...))
}

var contextPair = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}=[ -:<-~]*$`) // no semicolon in the value

// contextParams reads the header with parameters about the client's flow: key1=value1;key2=value2.
func contextParams(r *http.Request) (string, error) {
	values := r.Header.Values(contextHeader)
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return "", nil
	}
	if len(values) > 1 || len(values[0]) > maxContext {
		return "", badHeader(contextHeader, "must be there once and have at most 2048 bytes")
	}
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(values[0], ";") {
		key, _, _ := strings.Cut(pair, "=")
		if !contextPair.MatchString(pair) || seen[key] {
			return "", badHeader(contextHeader, "must have the form key1=value1;key2=value2")
		}
		seen[key] = true
	}
	return values[0], nil
}

// partition returns the partition of a username. It must be known while persons are kept in partitions.
func (a *API) partition(r *http.Request, client string) (string, error) {
	partition, err := a.deps.Gate.Partition(r, client, true)
	return partition, parameters(err)
}
