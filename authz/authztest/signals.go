package authztest

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// PushMethod and PollMethod are how events are delivered (RFC 8935, RFC 8936).
const (
	PushMethod = "urn:ietf:rfc:8935"
	PollMethod = "urn:ietf:rfc:8936"
)

// Receiver is a client that is told of shared signals.
type Receiver struct {
	*Harness

	ID, Bearer string

	Mu     sync.Mutex // guards all below
	Got    []*http.Request
	Bodies []string
	Status int
	During func() // called once, while an event is being pushed
}

// ReceiverClient returns a client that receives shared signals.
func ReceiverClient(id string, scopes ...string) *client.Client {
	return &client.Client{
		ID: id, Secrets: []secret.String{secret.New(Secret(id))}, Grants: []string{"client_credentials"},
		Scopes: append(scopes, "openid", "profile", "email", "groups"),
	}
}

// RoundTrip implements http.RoundTripper: it is where events are pushed to.
func (r *Receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	r.Mu.Lock()
	during := r.During
	r.During = nil
	r.Mu.Unlock()
	if during != nil {
		during()
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Got, r.Bodies = append(r.Got, q), append(r.Bodies, string(body))
	w := httptest.NewRecorder()
	w.WriteHeader(r.Status)
	return w.Result(), err
}

// As returns a token of a client.
func (r *Receiver) As(id, scope string) string {
	r.T.Helper()
	token := r.Token(id, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}).Text("access_token")
	if token == "" {
		r.T.Fatalf("%s has no token", id)
	}
	return token
}

// Ask sends JSON with a token.
func (r *Receiver) Ask(token, method, target string, body any) *Response {
	r.T.Helper()
	raw := ""
	if text, plain := body.(string); plain {
		raw = text
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			r.T.Fatal(err)
		}
		raw = string(b)
	}
	return r.Do(method, target, raw, "Authorization", "Bearer "+token, "Content-Type", "application/json")
}

// Want is ask by the receiver itself, which fails the test with another status.
func (r *Receiver) Want(status int, method, target string, body any) *Response {
	r.T.Helper()
	res := r.Ask(r.Bearer, method, target, body)
	if res.Status != status {
		r.T.Fatalf("%s %s %v = %d %s, want %d", method, target, body, res.Status, res.Body, status)
	}
	return res
}

// Object is a JSON object.
type Object = map[string]any

// Happens appends an event about a person.
func (r *Receiver) Happens(kind, person string, change ...func(*audit.Event)) {
	r.T.Helper()
	id, err := secret.ID(rand.Reader, 8)
	if err != nil {
		r.T.Fatal(err)
	}
	e := audit.Event{ID: id, Type: kind, Occurred: r.Clock.Now(), PersonID: person, Actor: "ops"}
	for _, f := range change {
		f(&e)
	}
	if err := r.Store.Update(r.T.Context(), func(tx storage.Tx) error { return r.Server().Tell(tx, e) }); err != nil {
		r.T.Fatal(err)
	}
}
