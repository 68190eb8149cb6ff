package postgres_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// aProofCountsOnce: 50 connections send one DPoP proof to two nodes at once. One of them gets a token, and one the
// details of the person.
func aProofCountsOnce(t *testing.T, db *pgtest.Server) {
	var nodes []*authztest.Harness
	for range 2 {
		store := openSchema(t, db, "served_proofs")
		nodes = append(nodes, authztest.New(t, authztest.WithStore(store), authztest.WithConfig(func(c *authz.Config) {
			if len(nodes) > 0 {
				c.Issuer = nodes[0].Issuer
			}
		})))
	}
	first, key := nodes[0], dpoptest.NewKey(t)
	once := func(what string, ask func(*authztest.Harness) *authztest.Response) (passed []*authztest.Response) {
		t.Helper()
		all := make([]*authztest.Response, 50)
		var group sync.WaitGroup
		for i := range all {
			group.Go(func() { all[i] = ask(nodes[i%2]) })
		}
		group.Wait()
		for _, res := range all {
			if res.Status == http.StatusOK {
				passed = append(passed, res)
			} else if res.Text("error") != "invalid_dpop_proof" {
				t.Errorf("%s: %d %s, want invalid_dpop_proof", what, res.Status, res.Body)
			}
		}
		if len(passed) != 1 {
			t.Fatalf("%s: %d of 50 passed, want one", what, len(passed))
		}
		return passed
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	at := key.Proof("POST", first.Issuer+"/oauth/token", "", first.Clock.Now())
	once("a token", func(h *authztest.Harness) *authztest.Response { return h.Token("reports", form, "DPoP", at) })

	res := first.Token("spa", first.CodeForm("spa", first.Browser(authztest.Demo).Code("spa")), "DPoP",
		key.Proof("POST", first.Issuer+"/oauth/token", "", first.Clock.Now()))
	access := res.Text("access_token")
	at = key.Proof("GET", first.Issuer+"/oauth/userinfo", access, first.Clock.Now())
	once("userinfo", func(h *authztest.Harness) *authztest.Response {
		return h.Get("/oauth/userinfo", "Authorization", "DPoP "+access, "DPoP", at)
	})
}
