package device

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const grantName = client.GrantDevice

var (
	errTooMany = denial.New(denial.TooManyBegun, "too much was begun from this network")
	errFull    = denial.New(denial.TooManyBegun, "the client has begun too many requests of devices")
)

// candidates is the number of user codes that are tried. That all of them are taken does not happen.
const candidates = 4

// HandleBegin serves POST /oauth/device_authorization (RFC 8628 3.1, 3.2).
func (s *Service) HandleBegin(w http.ResponseWriter, r *http.Request) error {
	f, err := oauth.ParseForm(r)
	if err != nil {
		return err
	}
	r.PostForm = url.Values(f.Values)
	oauth.Learn(r.Context(), f.Get("client_id"), "", f.Get("scope"))
	c, err := s.deps.Clients.Authenticate(r, f)
	if err != nil {
		return err
	}
	denial.Learn(r.Context(), func(a *denial.Refusal) { a.ClientID = c.ID })
	if err := s.deps.Clients.May(c, clientstore.Permission{Grant: grantName}); err != nil {
		return err
	}
	scope, err := s.deps.Clients.ScopesFor(c, f, grantName)
	if err != nil {
		return err
	}
	details, err := s.deps.Clients.DetailsFor(f)
	if err != nil {
		return err
	}
	resources := c.OwnResources(f.All("resource"))
	if err := s.deps.Clients.May(c,
		clientstore.Permission{Grant: grantName, Scope: scope, Resources: resources, Details: details}); err != nil {
		return err
	}
	now := s.now()
	rec := requestRecord{
		ClientID: c.ID, Scope: scope, Resources: resources, Address: s.deps.Origin(r).ClientIP, CreatedAt: now, ExpiresAt: now.Add(lifetime),
		Interval: firstInterval, AuthorizationDetails: details,
	}
	if !s.deps.Admit(r, requests.Size(rec)) {
		return oauth.TemporarilyUnavailable(errTooMany)
	}
	code, err := secret.NewToken(s.deps.Random, secret.DeviceCode)
	if err != nil {
		return oauth.ServerError(err)
	}
	texts, hashes := make([]string, candidates), make([]string, candidates)
	for i := range texts {
		if texts[i], err = secret.Text(s.deps.Random, alphabet, codeSize); err != nil {
			return oauth.ServerError(err)
		}
		hashes[i] = hashOf(texts[i])
	}
	key := hashOf(code)
	var wait time.Duration
	shown := ""
	err = s.update(r.Context(), func(tx storage.Tx) (err error) {
		if !c.Public { // strangers can begin as a public client, so its bound is that of their network
			if wait, err = count(tx, begun, c.ID, beginWindow, mostBegun, now); err != nil || wait > 0 {
				return err
			}
		}
		rec := rec
		for i, hash := range hashes {
			err := userCodes.Create(tx, hash, userCodeRecord{Request: key}, rec.ExpiresAt.Add(token.CollectMargin))
			if errors.Is(err, storage.ErrExists) && i < len(hashes)-1 {
				continue
			}
			if err != nil {
				return err
			}
			rec.UserCode, shown = texts[i], texts[i]
			break
		}
		return requests.Create(tx, key, rec, rec.ExpiresAt.Add(kept))
	})
	if err != nil {
		return err
	}
	if wait > 0 {
		return oauth.TooManyTries(errFull, wait)
	}
	shown = showUserCode(shown)
	jsonresponse.Write(w, http.StatusOK, begunReply{
		DeviceCode: code, UserCode: shown, VerificationURI: s.issuer + EnterPath,
		VerificationURIComplete: s.issuer + EnterPath + "?" + url.Values{UserCodeParam: {shown}}.Encode(),
		ExpiresIn:               jsonresponse.Seconds(lifetime), Interval: firstInterval,
	})
	return nil
}

// begunReply is the answer to a device. (RFC 8628 3.2)
type begunReply struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"` // seconds
	Interval                int    `json:"interval"`   // seconds
}

// AppendJSON implements jsonresponse.Body.
func (b begunReply) AppendJSON(dst []byte) []byte {
	body, _ := json.Marshal(b) //nolint:errchkjson // texts and numbers are never refused
	return append(dst, body...)
}
