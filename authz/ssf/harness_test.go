package ssf_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
)

const (
	revokedURI  = "https://schemas.openid.net/secevent/caep/event-type/session-revoked"
	changedURI  = "https://schemas.openid.net/secevent/caep/event-type/credential-change"
	levelURI    = "https://schemas.openid.net/secevent/caep/event-type/assurance-level-change"
	claimsURI   = "https://schemas.openid.net/secevent/caep/event-type/token-claims-change"
	disabledURI = "https://schemas.openid.net/secevent/risc/event-type/account-disabled"
	purgedURI   = "https://schemas.openid.net/secevent/risc/event-type/account-purged"
	verifiedURI = "https://schemas.openid.net/secevent/ssf/event-type/verification"
)

// newReceiver starts a server with the receivers siem and soc. siem asks.
func newReceiver(t *testing.T, all bool) *authztest.Receiver {
	t.Helper()
	r := &authztest.Receiver{ID: "siem", Status: http.StatusAccepted}
	r.Harness = authztest.New(t, authztest.WithClients(authztest.ReceiverClient("siem", ssf.ScopeManage),
		authztest.ReceiverClient("soc", ssf.ScopeManage), authztest.ReceiverClient("reader", ssf.ScopeRead)),
		authztest.WithHTTP(&http.Client{Transport: r}),
		authztest.WithConfig(func(c *authz.Config) { c.Signals = ssf.Config{On: true, All: all} }))
	r.Bearer = r.As("siem", ssf.ScopeManage)
	return r
}

// pushed returns what was pushed since the last call.
func pushed(r *authztest.Receiver) (requests []*http.Request, bodies []string) {
	if err := r.Server().CatchUp(r.T.Context()); err != nil {
		r.T.Error(err)
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	requests, bodies, r.Got, r.Bodies = r.Got, r.Bodies, nil, nil
	return requests, bodies
}

func answer(r *authztest.Receiver, status int) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Status = status
}

// create makes the receiver's stream and returns its id.
func create(r *authztest.Receiver, method string) string {
	r.T.Helper()
	d := authztest.Object{"method": method}
	if method == authztest.PushMethod {
		d["endpoint_url"], d["authorization_header"] = "https://siem.example.com/events", "Bearer of-the-receiver"
	}
	return r.Want(http.StatusCreated, "POST", "/ssf/stream", authztest.Object{"delivery": d}).Text("stream_id")
}

// poll asks for what waits, and acknowledges these.
func poll(r *authztest.Receiver, ack ...string) map[string]authztest.Object {
	r.T.Helper()
	res := r.Want(http.StatusOK, "POST", "/ssf/poll", authztest.Object{"returnImmediately": true, "ack": ack})
	out := map[string]authztest.Object{}
	for id, text := range res.JSON()["sets"].(map[string]any) {
		out[id] = read(r, text.(string))
		if out[id]["jti"] != id {
			r.T.Errorf("jti %v under %s", out[id]["jti"], id)
		}
	}
	return out
}

// read verifies a security event token as its receiver does. (RFC 8417; OpenID SSF 1.0, 4)
func read(r *authztest.Receiver, text string) authztest.Object {
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
	var claims authztest.Object
	if err := json.Unmarshal(payload, &claims); err != nil {
		r.T.Fatal(err)
	}
	if claims["iss"] != r.Issuer || claims["aud"] != r.ID || claims["sub"] != nil || claims["exp"] != nil || claims["iat"] == nil {
		r.T.Errorf("claims %v", claims)
	}
	return claims
}

// kinds returns the types of the events in tokens.
func kinds(sets map[string]authztest.Object) (list []string) {
	for _, s := range sets {
		for uri := range s["events"].(authztest.Object) {
			list = append(list, uri)
		}
	}
	slices.Sort(list)
	return list
}
