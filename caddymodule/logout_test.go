package caddymodule_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestLogoutIsTold walks a person through a client that hears of logouts: a block by command reaches it, whichever
// configuration runs by then.
func TestLogoutIsTold(t *testing.T) {
	told, codes := make(chan string, 16), make(chan string, 16)
	party := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cb" {
			codes <- r.URL.Query().Get("code")
			return
		}
		told <- r.PostFormValue("logout_token")
	}))
	t.Cleanup(party.Close)
	s := newServer(t)
	s.extra = `client party {
		secret the-secret-of-the-party-in-these-tests
		redirect_uris ` + party.URL + `/cb
		backchannel_logout_uri ` + party.URL + `/logout
		grants authorization_code
		scopes openid
		consent off
	}`
	s.mustLoad()
	authorize := s.issuer() + "/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {"party"}, "redirect_uri": {party.URL + "/cb"}, "scope": {"openid"}}.Encode()
	newBrowser(t).signIn(authorize)
	form := url.Values{"grant_type": {"authorization_code"}, "code": {<-codes}, "redirect_uri": {party.URL + "/cb"}}
	r := s.request(http.MethodPost, s.issuer()+"/oauth/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("party", "the-secret-of-the-party-in-these-tests")
	if res, body := s.do(r); res.StatusCode != http.StatusOK {
		t.Fatalf("token: %d %s", res.StatusCode, body)
	}
	s.options = "log {\n\t\tlevel ERROR\n\t}"
	s.mustLoad() // a reload replaces the worker
	s.run("", "person", "block", "demo@example.com")
	select {
	case token := <-told:
		if strings.Count(token, ".") != 2 {
			t.Errorf("logout token = %q, want a JWT", token)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no logout token came")
	}
}
