package provider_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// marking is a proxy in front: it adds headers to every request.
type marking struct {
	http.RoundTripper
	headers map[string]string
}

func (m marking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range m.headers {
		r.Header.Set(name, value)
	}
	return m.RoundTripper.RoundTrip(r)
}

// TestHeaderProvider walks people through Gatehouse behind a proxy that has signed them in already.
func TestHeaderProvider(t *testing.T) {
	codes := make(chan url.Values, 16)
	party := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { codes <- r.URL.Query() }))
	t.Cleanup(party.Close)
	s := servertest.NewServer(t)
	client := func(id, more string) string {
		return "client " + id + " {\n secret " + servertest.TestSecret + "\n redirect_uris " + party.URL +
			"/cb\n grants authorization_code\n scopes openid orders.read\n " + more + "\n}\n"
	}
	s.Extra = client("front", "idps edge\n consent off") + client("asks", "idps edge") + client("strict", "idps far\n consent off") +
		client("mixed", "idps far identity off\n consent off") + `
		idp edge header {
			trust 127.0.0.0/8 ::1
			user X-Remote-User
			level X-Remote-Level
			attributes X-Remote-Email email
			parameters branch
			name The edge
		}
		idp far header {
			trust 192.0.2.0/24
			user X-Far-User
		}
		idp off header {
			trust 127.0.0.0/8 ::1
			user X-Remote-User
			disabled
		}`
	s.Site = "protect orders.read {\n\t\tpublic /open\n\t}\n\trespond /open `[{http.request.header.X-Remote-User}] [{http.request.header.X-Far-User}] [{http.request.header.X_Remote_User}]`"
	s.MustLoad()
	behind := func(headers map[string]string) *servertest.Browser {
		b := servertest.NewBrowser(t)
		b.Client.Transport = marking{s.Transport, headers}
		return b
	}
	authorize := func(client string, more ...string) string {
		v := url.Values{"response_type": {"code"}, "client_id": {client}, "redirect_uri": {party.URL + "/cb"}, "scope": {"openid orders.read"}}
		for i := 0; i+1 < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return s.Issuer() + "/oauth/authorize?" + v.Encode()
	}
	redeem := func(client, code string) string {
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {party.URL + "/cb"},
		}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(client, servertest.TestSecret)
		res, body := s.Do(r)
		var answer struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("Token(%q) = %d %s", client, res.StatusCode, body)
		}
		return answer.AccessToken
	}
	introspect := func(token string) map[string]any {
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/api/v2/token/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("ops", "the-secret-of-ops-in-all-of-these-tests")
		_, body := s.Do(r)
		var answer map[string]any
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("Introspect = %s", body)
		}
		return answer
	}
	ann := map[string]string{"X-Remote-User": "ann", "X-Remote-Level": "2", "X-Remote-Email": "ann@example.com"}

	behind(ann).Open(authorize("front", "prompt", "none", "branch", "north", "language", "nl_NL"))
	token := redeem("front", (<-codes).Get("code"))
	got := introspect(token)
	for member, want := range map[string]any{
		"username": "ann", "acr": "urn:gatehouse:level:2", "amr": []any{"IMPLICIT"},
		"user_details": map[string]any{"email": "ann@example.com", "branch": "north"},
	} {
		if diff := cmp.Diff(want, got[member]); diff != "" {
			t.Errorf("introspection, %s (-want +got):\n%s", member, diff)
		}
	}
	if status := s.Enters(token); status != http.StatusOK {
		t.Errorf("protect = %d, want 200", status)
	}

	// The consent page is shown as to anybody, and its form is good behind the proxy.
	b := behind(ann)
	res, body := b.Open(authorize("asks"))
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "ann") {
		t.Fatalf("consent page = %d %s", res.StatusCode, body)
	}
	b.Submit(res, body, url.Values{"decision": {"allow"}})
	redeem("asks", (<-codes).Get("code"))

	t.Run("attack 36: a provider that is not the client's, headers of a stranger", func(t *testing.T) {
		far := map[string]string{"X-Far-User": "root", "X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1", "X-Real-Ip": "192.0.2.1"}
		for _, target := range []string{
			authorize("strict"), authorize("strict", "idp", "far"), authorize("mixed", "idp", "off"),
			authorize("front", "idp", "far"),
		} {
			res, body := behind(far).Open(target)
			if res.StatusCode != http.StatusForbidden || !strings.Contains(body, "This sign-in method isn’t available here") {
				t.Errorf("%s = %d %s, want the 403 page", target, res.StatusCode, body)
			}
		}
		for _, target := range []string{authorize("mixed"), authorize("mixed", "idp", "far")} {
			res, body := behind(far).Open(target)
			if res.StatusCode != http.StatusOK || res.Request.URL.Path != "/sign-in" || strings.Contains(body, "root") {
				t.Errorf("%s = %d %s, want the sign-in page", target, res.StatusCode, res.Request.URL)
			}
		}
		behind(far).Open(authorize("mixed", "prompt", "none"))
		if answer := <-codes; answer.Get("error") != "login_required" {
			t.Errorf("prompt=none = %v, want login_required", answer)
		}
		_, body := behind(map[string]string{"X-Remote-User": "ann", "X-Far-User": "root"}).Open("http://" + s.API + "/open")
		if body != "[ann] [] []" {
			t.Errorf("an upstream sees %s, want the header of the trusted proxy alone", body)
		}
	})

	s.Run("", "person", "block", "ann")
	if status := s.Enters(token); status != http.StatusUnauthorized {
		t.Errorf("protect = %d for a blocked person, want 401", status)
	}
	if res, body := behind(ann).Open(authorize("front")); res.StatusCode != http.StatusForbidden ||
		!strings.Contains(body, "You don’t have access") {
		t.Errorf("authorize = %d %s for a blocked person, want a 403 page", res.StatusCode, body)
	}
}
