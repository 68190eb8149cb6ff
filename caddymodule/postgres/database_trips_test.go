package postgres_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// fewTrips is the maximum number of waits of a request for the database, once its data was read before.
var fewTrips = map[string]int{
	"introspection": 1, "userinfo": 1, "the sign-in page": 3, "a token of a client": 3,
	// Most of these read what they write about in their transaction, one after the other.
	"an authorization request without a session": 7, "a password": 22, "the way back to the client": 12,
	"an authorization request with a session": 11,
	"a code": 17, "a refresh token": 14,
}

// requestsTakeFewTrips counts what goes over the wire to the database. A beat of the background can come between, so it
// counts the best of many.
func requestsTakeFewTrips(t *testing.T, db *pgtest.Server) {
	const callback = "https://shop.example.com/cb"
	proxy := pgtest.NewProxy(t, db.Address())
	s := servertest.NewServer(t)
	useSchema(s, db, "trips")
	s.Storage = strings.Replace(s.Storage, db.Address(), proxy.Address(), 1)
	s.Storage = strings.Replace(s.Storage, "pool 4", "direct_url "+db.URL(pgtest.Database), 1)
	s.Extra = "client shop {\n secret " + servertest.TestSecret + "\n redirect_uris " + callback +
		"\n grants authorization_code refresh_token\n" +
		" scopes openid profile offline_access\n consent off\n}"
	s.MustLoad()

	least := map[string]int{}
	counted := func(what string, do func()) {
		t.Helper()
		before := proxy.Trips()
		do()
		n := proxy.Trips() - before
		if was, ok := least[what]; !ok || n < was {
			least[what] = n
		}
	}
	post := func(path, user, password string, form url.Values) (answer map[string]any) {
		t.Helper()
		r := s.Request(http.MethodPost, s.Issuer()+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(user, password)
		resp, body := s.Do(r)
		if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s = %d %s", path, resp.StatusCode, body)
		}
		return answer
	}
	authorize := s.Issuer() + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {"shop"}, "redirect_uri": {callback}, "scope": {"openid profile offline_access"}, "state": {"s"},
	}.Encode()
	for range 12 {
		b := servertest.NewBrowser(t)
		b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		var resp *http.Response
		var body string
		to := func() string {
			t.Helper()
			u, err := resp.Location()
			if err != nil {
				t.Fatalf("%s = %d %s", resp.Request.URL, resp.StatusCode, body)
			}
			return u.String()
		}
		counted("an authorization request without a session", func() { resp, body = b.Open(authorize) })
		page := to()
		counted("the sign-in page", func() { resp, body = b.Open(page) })
		counted("a password", func() {
			resp, body = b.Submit(resp, body, url.Values{"username": {"demo@example.com"}, "password": {servertest.TestPassword}})
		})
		back := to()
		counted("the way back to the client", func() { resp, body = b.Open(back) })
		counted("an authorization request with a session", func() { resp, body = b.Open(authorize) })
		u, err := url.Parse(to())
		if err != nil || u.Query().Get("code") == "" {
			t.Fatalf("no code at %s, %v", u, err)
		}
		var got map[string]any
		counted("a code", func() {
			got = post("/oauth/token", "shop", servertest.TestSecret,
				url.Values{"grant_type": {"authorization_code"}, "code": {u.Query().Get("code")}, "redirect_uri": {callback}})
		})
		refresh, _ := got["refresh_token"].(string)
		counted("a refresh token", func() {
			got = post("/oauth/token", "shop", servertest.TestSecret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
		})
		access, _ := got["access_token"].(string)
		for range 2 {
			counted("introspection", func() {
				if got := post("/oauth/api/v2/token/introspect", "ops", "the-secret-of-ops-in-all-of-these-tests",
					url.Values{"token": {access}}); got["active"] != true {
					t.Errorf("introspection = %v", got)
				}
			})
		}
		counted("userinfo", func() {
			r := s.Request(http.MethodGet, s.Issuer()+"/oauth/userinfo", nil)
			r.Header.Set("Authorization", "Bearer "+access)
			if resp, body := s.Do(r); resp.StatusCode != http.StatusOK {
				t.Errorf("userinfo = %d %s", resp.StatusCode, body)
			}
		})
		counted("a token of a client", func() { s.Token() })
	}
	t.Log("round trips:", least)
	for what, most := range fewTrips {
		if n, ok := least[what]; !ok || n > most {
			t.Errorf("%s takes %d round trips, want %d at most", what, n, most)
		}
	}
}
