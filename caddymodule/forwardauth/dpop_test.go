package forwardauth_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func newProofs(t *testing.T) *dpop.Proofs {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return dpop.New(dpop.Deps{Store: store, Keyring: ring, Now: time.Now})
}

// TestBoundTokenBehindAnotherProxy: a token that is bound to a key passes another proxy with a proof for the address
// that the client has asked for, once, and the upstream gets neither where the gate strips tokens.
func TestBoundTokenBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.proofs = newProofs(t)
	g, key, who := i.gates(), dpoptest.NewKey(t), ann()
	who.Confirmation = token.Confirmation{JKT: key.JKT}
	bound := i.bearer(who)
	question := func(authorization string, proofs ...string) forwardauth.Question {
		q := forwardauth.Question{
			Method: http.MethodGet, Scheme: "https", Host: "api.test:443", Target: "/orders?x=1", Gate: "api",
			Client: netip.MustParseAddr("192.0.2.7"),
			Header: headers("Authorization", authorization),
		}
		for _, proof := range proofs {
			q.Header.Add("DPoP", proof)
		}
		return q
	}
	proof := func() string { return key.Proof("GET", "https://api.test/orders", bound, time.Now()) }

	q := question("DPoP "+bound, proof())
	q.Narrow = url.Values{"group": {"staff"}} // a second look at the same request asks for no second proof
	a := ask(t, g, q)
	if !a.Passed || a.Identity.Get("Remote-User") != "ann" || !slices.Contains(a.Remove, "Authorization") ||
		!slices.Contains(a.Remove, "Dpop") {
		t.Errorf("with a proof: %d %s, identity %v, removes %q", a.Status, a.Body, a.Identity, a.Remove)
	}
	for name, again := range map[string]forwardauth.Question{
		"the same proof again": q, "a bearer token": question("Bearer " + bound), "no proof": question("DPoP " + bound),
		"a proof for another host": question("DPoP "+bound, key.Proof("GET", "https://wiki.test/orders", bound, time.Now())),
		"two proofs":               question("DPoP "+bound, proof(), proof()),
	} {
		a := ask(t, g, again)
		if challenge := strings.Join(a.Header.Values("WWW-Authenticate"), "; "); a.Passed || a.Status != http.StatusUnauthorized ||
			!strings.Contains(challenge, "DPoP algs=") {
			t.Errorf("%s: passed = %t, status = %d, challenge %q, want 401 and DPoP", name, a.Passed, a.Status, challenge)
		}
	}
	if a := ask(t, g, question("Bearer "+i.bearer(ann()))); !a.Passed {
		t.Errorf("a bearer token: status = %d %s", a.Status, a.Body)
	}
}
