package ssf

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Paths of the transmitter.
const (
	MetadataPath = "/.well-known/ssf-configuration"
	StreamPath   = "/ssf/stream"
	StatusPath   = "/ssf/status"
	AddPath      = "/ssf/subjects/add"
	RemovePath   = "/ssf/subjects/remove"
	VerifyPath   = "/ssf/verify"
	PollPath     = "/ssf/poll"
)

// Metadata is the answer of MetadataPath. (OpenID SSF 1.0, 7.1)
type Metadata struct {
	Version         string              `json:"spec_version"`
	Issuer          string              `json:"issuer"`
	JWKS            string              `json:"jwks_uri"`
	Methods         []string            `json:"delivery_methods_supported"`
	Configuration   string              `json:"configuration_endpoint"`
	Status          string              `json:"status_endpoint"`
	AddSubject      string              `json:"add_subject_endpoint"`
	RemoveSubject   string              `json:"remove_subject_endpoint"`
	Verification    string              `json:"verification_endpoint"`
	Schemes         []map[string]string `json:"authorization_schemes"`
	DefaultSubjects string              `json:"default_subjects"`
}

// Metadata describes the transmitter.
func (s *Service) Metadata() Metadata {
	subjects := "NONE"
	if s.cfg.All {
		subjects = "ALL"
	}
	return Metadata{
		Version: "1_0", Issuer: s.issuer, JWKS: s.issuer + "/oauth/jwks", Methods: []string{methodPush, methodPoll},
		Configuration: s.issuer + StreamPath, Status: s.issuer + StatusPath, AddSubject: s.issuer + AddPath, RemoveSubject: s.issuer + RemovePath,
		Verification: s.issuer + VerifyPath, Schemes: []map[string]string{{"spec_urn": "urn:ietf:rfc:6749"}}, DefaultSubjects: subjects,
	}
}

// delivery says how a receiver gets its events.
type delivery struct {
	Method        string  `json:"method"`
	Endpoint      string  `json:"endpoint_url,omitempty"`
	Authorization *string `json:"authorization_header,omitempty"` // never answered
}

// configuration is a receiver's configuration of its stream. nil: not sent.
type configuration struct {
	ID          *string   `json:"stream_id"`
	Issuer      *string   `json:"iss"`
	Audience    *audience `json:"aud"`
	Delivery    *delivery `json:"delivery"`
	Requested   *[]string `json:"events_requested"`
	Description *string   `json:"description"`
	Supported   *[]string `json:"events_supported"`
	Interval    *int64    `json:"min_verification_interval"`
}

// audience is one string, or an array. (RFC 7519 4.1.3)
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// stream is the answer about a stream. (OpenID SSF 1.0, 8.1.1)
type stream struct {
	ID          string   `json:"stream_id"`
	Issuer      string   `json:"iss"`
	Audience    string   `json:"aud"`
	Supported   []string `json:"events_supported"`
	Requested   []string `json:"events_requested,omitempty"`
	Delivered   []string `json:"events_delivered"`
	Delivery    delivery `json:"delivery"`
	Interval    int64    `json:"min_verification_interval"`
	Description string   `json:"description,omitempty"`
}

func (s *Service) answer(clientID string, rec *streamRecord) stream {
	d := delivery{Method: rec.Method, Endpoint: rec.Endpoint}
	if rec.Method == methodPoll {
		d.Endpoint = s.issuer + PollPath
	}
	out := stream{
		ID: rec.ID, Issuer: s.issuer, Audience: clientID, Requested: rec.Requested, Delivery: d, Interval: int64(verifyEvery / time.Second),
		Description: rec.Description, Delivered: []string{},
	}
	for _, k := range supported {
		out.Supported = append(out.Supported, uris[k])
		if rec.wants(k) {
			out.Delivered = append(out.Delivered, uris[k])
		}
	}
	return out
}

const maxBody = 64 << 10

var errNoObject = errors.New("the body is not an object")

// read reads a JSON object from a request. Unknown members are ignored. (OpenID SSF 1.0, 8.1.1.1)
func read(r *http.Request, into any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return oauth.InvalidRequest(err, "the body could not be read")
	case len(raw) > maxBody:
		return &oauth.Error{Status: http.StatusRequestEntityTooLarge, Code: "invalid_request", Description: "the body is too large"}
	}
	v, err := strictjson.Value(raw) // no member is there twice
	if err == nil {
		if _, object := v.(map[string]any); !object {
			err = errNoObject
		} else {
			err = json.Unmarshal(raw, into)
		}
	}
	if err != nil {
		return oauth.InvalidRequest(err, "the body is not a JSON object with the members of its kind")
	}
	return nil
}

func write(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	jsonresponse.WriteJSON(w, status, body)
	return nil
}

func writeNothing(w http.ResponseWriter) {
	jsonresponse.Headers(w.Header(), -1)
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusNoContent)
}

// HandleStream serves GET, POST, PATCH, PUT and DELETE /ssf/stream. (OpenID SSF 1.0, 8.1.1)
func (s *Service) HandleStream(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet {
		return s.readStream(w, r)
	}
	c, err := s.receiver(r, ScopeManage)
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		return s.deleteStream(w, r, c)
	}
	var sent configuration
	if err := read(r, &sent); err != nil {
		return err
	}
	kind := eventUpdated
	if r.Method == http.MethodPost {
		kind = eventCreated
	}
	e, err := s.deps.Events.New(kind, s.deps.Origin(r))
	if err != nil {
		return err
	}
	e.Actor, e.ClientID = c.ID, c.ID
	if r.Method == http.MethodPost {
		return s.createStream(w, r, c, &sent, e)
	}
	return s.changeStream(w, r, c, &sent, e)
}

func (s *Service) readStream(w http.ResponseWriter, r *http.Request) error {
	c, err := s.receiver(r, ScopeRead)
	if err != nil {
		return err
	}
	id := r.URL.Query().Get("stream_id")
	var rec streamRecord
	err = s.view(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = find(tx, c.ID, id)
		return err
	})
	switch {
	case id == "" && errors.Is(err, errNoStream):
		return write(w, http.StatusOK, []stream{})
	case err != nil:
		return err
	case id == "":
		return write(w, http.StatusOK, []stream{s.answer(c.ID, &rec)})
	}
	return write(w, http.StatusOK, s.answer(c.ID, &rec))
}

func (s *Service) createStream(w http.ResponseWriter, r *http.Request, c *client.Client, sent *configuration, e audit.Event) error {
	if sent.ID != nil {
		return oauth.InvalidRequest(nil, "stream_id is chosen by the transmitter")
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	rec := streamRecord{ID: id, Method: methodPoll, Status: enabled, CreatedAt: s.now()}
	if err := s.apply(&rec, sent); err != nil {
		return err
	}
	err = s.update(r.Context(), func(tx storage.Tx) error {
		n := 0
		for other, err := range streams.Scan(tx, storage.Range{Limit: mostStreams}) {
			if err != nil {
				return err
			}
			if other.Key == c.ID {
				return &oauth.Error{
					Status: http.StatusConflict, Code: "invalid_request",
					Description: "the client has a stream already", Cause: errHasStream,
				}
			}
			n++
		}
		if n == mostStreams {
			return oauth.TooManyTries(errFull, time.Hour)
		}
		if err := streams.Put(tx, c.ID, rec, never); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, s.answer(c.ID, &rec))
}

var never time.Time

// changeStream updates (PATCH) or replaces (PUT) a stream.
func (s *Service) changeStream(w http.ResponseWriter, r *http.Request, c *client.Client, sent *configuration, e audit.Event) error {
	if sent.ID == nil {
		return oauth.InvalidRequest(nil, "stream_id is missing")
	}
	var rec streamRecord
	if err := s.view(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = find(tx, c.ID, *sent.ID)
		return err
	}); err != nil {
		return err
	}
	if err := s.checkOwn(c.ID, &rec, sent); err != nil {
		return err
	}
	fresh := rec
	if r.Method == http.MethodPut {
		if sent.Delivery == nil {
			return oauth.InvalidRequest(nil, "delivery is missing")
		}
		fresh.Requested, fresh.Description, fresh.Header = nil, "", nil
	}
	if err := s.apply(&fresh, sent); err != nil {
		return err
	}
	err := s.change(r.Context(), c.ID, fresh.ID, e, func(now *streamRecord) {
		now.Method, now.Endpoint, now.Header, now.Requested, now.Description = fresh.Method, fresh.Endpoint, fresh.Header,
			fresh.Requested, fresh.Description
	})
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, s.answer(c.ID, &fresh))
}

// change changes a stream, which is pushed to at once again.
func (s *Service) change(ctx context.Context, clientID, id string, e audit.Event, set func(*streamRecord)) error {
	err := s.update(ctx, func(tx storage.Tx) error {
		rec, err := find(tx, clientID, id)
		if err != nil {
			return err
		}
		set(&rec)
		if err := streams.Put(tx, clientID, rec, never); err != nil {
			return err
		}
		if err := deliveries.Delete(tx, clientID); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	if err == nil {
		s.look()
	}
	return err
}

// checkOwn refuses our values that the receiver sends otherwise. (OpenID SSF 1.0, 8.1.1.3, 8.1.1.4)
func (s *Service) checkOwn(clientID string, rec *streamRecord, sent *configuration) error {
	is := s.answer(clientID, rec)
	differs := func(got *[]string, want []string) bool {
		return got != nil && !slices.Equal(slices.Sorted(slices.Values(*got)), slices.Sorted(slices.Values(want)))
	}
	switch {
	case sent.Issuer != nil && *sent.Issuer != is.Issuer,
		sent.Audience != nil && !slices.Equal(*sent.Audience, []string{is.Audience}),
		sent.Interval != nil && *sent.Interval != is.Interval,
		differs(sent.Supported, is.Supported):
		return oauth.InvalidRequest(nil, "a member that the transmitter sets has another value")
	}
	return nil
}

// apply writes what a receiver has sent into its stream.
func (s *Service) apply(rec *streamRecord, sent *configuration) error {
	if sent.Description != nil {
		if rec.Description = *sent.Description; len([]rune(rec.Description)) > maxText {
			return oauth.InvalidRequest(nil, "description is longer than 256 characters")
		}
	}
	if sent.Requested != nil {
		if len(*sent.Requested) > 100 {
			return oauth.InvalidRequest(nil, "events_requested has more than 100 members")
		}
		rec.Requested = nil
		for _, uri := range *sent.Requested {
			if u, err := url.Parse(uri); err != nil || u.Scheme == "" || len(uri) > maxText {
				return oauth.InvalidRequest(err, "events_requested has a member that is not a URI")
			}
			rec.Requested = append(rec.Requested, uri)
		}
	}
	if sent.Delivery == nil {
		return nil
	}
	return s.applyDelivery(rec, sent.Delivery)
}

func (s *Service) applyDelivery(rec *streamRecord, d *delivery) error {
	switch d.Method {
	case methodPoll:
		rec.Method, rec.Endpoint, rec.Header = methodPoll, "", nil
		return nil
	case methodPush:
	default:
		return oauth.InvalidRequest(nil, "delivery.method: want "+methodPush+" or "+methodPoll)
	}
	u, err := url.Parse(d.Endpoint)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || len(d.Endpoint) > 2048 {
		return oauth.InvalidRequest(nil, "delivery.endpoint_url is not an https address")
	}
	if rec.Endpoint != d.Endpoint {
		rec.Header = nil // what one address is sent is no other one's
	}
	rec.Method, rec.Endpoint = methodPush, d.Endpoint
	if d.Authorization == nil {
		return nil
	}
	if strings.ContainsFunc(*d.Authorization, func(c rune) bool { return c < ' ' || c > '~' }) || len(*d.Authorization) > 4096 {
		return oauth.InvalidRequest(nil, "delivery.authorization_header is not a value of a header")
	}
	if rec.Header = nil; *d.Authorization == "" {
		return nil
	}
	rec.Header, err = s.deps.Keyring.Seal(headerPurpose, []byte(strings.TrimSpace(*d.Authorization)))
	return err
}

const headerPurpose = "authorization header of a stream"

func (s *Service) deleteStream(w http.ResponseWriter, r *http.Request, c *client.Client) error {
	id := r.URL.Query().Get("stream_id")
	if id == "" {
		return oauth.InvalidRequest(nil, "stream_id is missing")
	}
	e, err := s.deps.Events.New(eventDeleted, s.deps.Origin(r))
	if err != nil {
		return err
	}
	e.Actor, e.ClientID = c.ID, c.ID
	err = s.update(r.Context(), func(tx storage.Tx) error {
		if _, err := find(tx, c.ID, id); err != nil {
			return err
		}
		if err := streams.Delete(tx, c.ID); err != nil {
			return err
		}
		if err := deliveries.Delete(tx, c.ID); err != nil {
			return err
		}
		if err := leftovers.Put(tx, id, leftoverRecord{}, never); err != nil {
			return err
		}
		return s.deps.Events.Append(tx, e)
	})
	if err != nil {
		return err
	}
	s.look() // the worker removes what waits, and whom it has named
	writeNothing(w)
	return nil
}
