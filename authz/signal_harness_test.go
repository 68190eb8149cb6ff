package authz_test

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/signal"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pushMethod, pollMethod = "urn:ietf:rfc:8935", "urn:ietf:rfc:8936"

	revokedURI  = "https://schemas.openid.net/secevent/caep/event-type/session-revoked"
	changedURI  = "https://schemas.openid.net/secevent/caep/event-type/credential-change"
	levelURI    = "https://schemas.openid.net/secevent/caep/event-type/assurance-level-change"
	claimsURI   = "https://schemas.openid.net/secevent/caep/event-type/token-claims-change"
	disabledURI = "https://schemas.openid.net/secevent/risc/event-type/account-disabled"
	purgedURI   = "https://schemas.openid.net/secevent/risc/event-type/account-purged"
	verifiedURI = "https://schemas.openid.net/secevent/ssf/event-type/verification"
)

// receiver is a client that is told of shared signals.
type receiver struct {
	*authztest.Harness

	id, token string

	mu     sync.Mutex // guards all below
	got    []*http.Request
	bodies []string
	status int
	during func() // called once, while an event is being pushed
}

func receiverClient(id string, scopes ...string) *client.Client {
	return &client.Client{
		ID: id, Secrets: []secret.String{secret.New(authztest.Secret(id))}, Grants: []string{"client_credentials"}, Scopes: append(scopes, "openid", "profile", "email", "groups"),
	}
}

// newReceiver starts a server with the receivers siem and soc. siem asks.
func newReceiver(t *testing.T, all bool) *receiver {
	t.Helper()
	r := &receiver{id: "siem", status: http.StatusAccepted}
	r.Harness = authztest.New(t, authztest.WithClients(receiverClient("siem", signal.ScopeManage), receiverClient("soc", signal.ScopeManage), receiverClient("reader", signal.ScopeRead)),
		authztest.WithHTTP(&http.Client{Transport: r}), authztest.WithConfig(func(c *authz.Config) { c.Signals = signal.Config{On: true, All: all} }))
	r.token = r.as("siem", signal.ScopeManage)
	return r
}

// RoundTrip implements http.RoundTripper: it is where events are pushed to.
func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	during := r.during
	r.during = nil
	r.mu.Unlock()
	if during != nil {
		during()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got, r.bodies = append(r.got, q), append(r.bodies, string(body))
	w := httptest.NewRecorder()
	w.WriteHeader(r.status)
	return w.Result(), err
}

// pushed returns what was pushed since the last call.
func (r *receiver) pushed() (requests []*http.Request, bodies []string) {
	if err := r.Server().CatchUp(r.T.Context()); err != nil {
		r.T.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	requests, bodies, r.got, r.bodies = r.got, r.bodies, nil, nil
	return requests, bodies
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// as returns a token of a client.
func (r *receiver) as(id, scope string) string {
	r.T.Helper()
	token := r.Token(id, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}).Text("access_token")
	if token == "" {
		r.T.Fatalf("%s has no token", id)
	}
	return token
}

// ask sends JSON with a token.
func (r *receiver) ask(token, method, target string, body any) *authztest.Response {
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

// want is ask by the receiver itself, which fails the test with another status.
func (r *receiver) want(status int, method, target string, body any) *authztest.Response {
	r.T.Helper()
	res := r.ask(r.token, method, target, body)
	if res.Status != status {
		r.T.Fatalf("%s %s %v = %d %s, want %d", method, target, body, res.Status, res.Body, status)
	}
	return res
}

type object = map[string]any

// create makes the receiver's stream and returns its id.
func (r *receiver) create(method string) string {
	r.T.Helper()
	d := object{"method": method}
	if method == pushMethod {
		d["endpoint_url"], d["authorization_header"] = "https://siem.example.com/events", "Bearer of-the-receiver"
	}
	return r.want(http.StatusCreated, "POST", "/ssf/stream", object{"delivery": d}).Text("stream_id")
}

// happens appends an event about a person.
func (r *receiver) happens(kind, person string, change ...func(*event.Event)) {
	r.T.Helper()
	id, err := secret.ID(rand.Reader, 8)
	if err != nil {
		r.T.Fatal(err)
	}
	e := event.Event{ID: id, Type: kind, Occurred: r.Clock.Now(), PersonID: person, Actor: "ops"}
	for _, f := range change {
		f(&e)
	}
	if err := r.Store.Update(r.T.Context(), func(tx storage.Tx) error { return r.Server().Tell(tx, e) }); err != nil {
		r.T.Fatal(err)
	}
}

// poll asks for what waits, and acknowledges these.
func (r *receiver) poll(ack ...string) map[string]object {
	r.T.Helper()
	res := r.want(http.StatusOK, "POST", "/ssf/poll", object{"returnImmediately": true, "ack": ack})
	out := map[string]object{}
	for id, text := range res.JSON()["sets"].(map[string]any) {
		out[id] = r.read(text.(string))
		if out[id]["jti"] != id {
			r.T.Errorf("jti %v under %s", out[id]["jti"], id)
		}
	}
	return out
}

// read verifies a security event token as its receiver does. (RFC 8417; OpenID SSF 1.0, 4)
func (r *receiver) read(text string) object {
	r.T.Helper()
	parsed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		r.T.Fatalf("%q: %v", text, err)
	}
	header := parsed.Signatures[0].Header
	if header.ExtraHeaders["typ"] != "secevent+jwt" {
		r.T.Errorf("typ %v", header.ExtraHeaders["typ"])
	}
	published := r.Keys.JWKS()
	payload, err := parsed.Verify(published.Key(header.KeyID)[0].Key)
	if err != nil {
		r.T.Fatal(err)
	}
	var claims object
	if err := json.Unmarshal(payload, &claims); err != nil {
		r.T.Fatal(err)
	}
	if claims["iss"] != r.Issuer || claims["aud"] != r.id || claims["sub"] != nil || claims["exp"] != nil || claims["iat"] == nil {
		r.T.Errorf("claims %v", claims)
	}
	return claims
}

// kinds returns the types of the events in tokens.
func kinds(sets map[string]object) (list []string) {
	for _, s := range sets {
		for uri := range s["events"].(object) {
			list = append(list, uri)
		}
	}
	slices.Sort(list)
	return list
}
