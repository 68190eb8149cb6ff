package inventory_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
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
	s := servertest.NewServer(t)
	s.Extra = `client party {
		secret the-secret-of-the-party-in-these-tests
		redirect_uris ` + party.URL + `/cb
		backchannel_logout_uri ` + party.URL + `/logout
		grants authorization_code
		scopes openid
		consent off
	}`
	s.MustLoad()
	authorize := s.Issuer() + "/oauth/authorize?" +
		url.Values{"response_type": {"code"}, "client_id": {"party"}, "redirect_uri": {party.URL + "/cb"}, "scope": {"openid"}}.Encode()
	servertest.NewBrowser(t).SignIn(authorize)
	form := url.Values{"grant_type": {"authorization_code"}, "code": {<-codes}, "redirect_uri": {party.URL + "/cb"}}
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("party", "the-secret-of-the-party-in-these-tests")
	if res, body := s.Do(r); res.StatusCode != http.StatusOK {
		t.Fatalf("token: %d %s", res.StatusCode, body)
	}
	s.Options = "log {\n\t\tlevel ERROR\n\t}"
	s.MustLoad() // a reload replaces the worker
	s.Run("", "person", "block", "demo@example.com")
	select {
	case token := <-told:
		if strings.Count(token, ".") != 2 {
			t.Errorf("logout token = %q, want a JWT", token)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("no logout token came")
	}
}
