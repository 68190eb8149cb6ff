package introspect_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// introspecting is a site that asks a server elsewhere.
func introspecting(endpoint, more string) string {
	return "protect {\n\t\tintrospect " + endpoint + " {\n\t\t\tclient ops the-secret-of-ops-in-all-of-these-tests\n\t\t}\n\t\t" +
		more + "\n\t}\n"
}

// A gateway asks a Gatehouse elsewhere, here itself by way of its address: a use of a token counts there, once a
// request, and a revocation counts at once.
func TestIntrospectAtGatehouse(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = "scope orders.read {\n\t\t\tusage_limit 3\n\t\t}\n\t\tclient free {\n\t\t\tsecret " + servertest.TestSecret +
		"\n\t\t\tgrants client_credentials\n\t\t\tscopes a\n\t\t\tdefault_scopes a\n\t\t}"
	own := s.Issuer() + "/oauth/api/v2/token/introspect"
	s.Site = introspecting(own, "scopes orders.read") + "\t" + introspecting(own, "need client reports")
	s.MustLoad()
	token := s.Token()
	for i := range 4 {
		want := http.StatusOK
		if i == 3 {
			want = http.StatusUnauthorized
		}
		if got := s.Enters(token); got != want {
			t.Errorf("request %d with a token for 3 uses = %d, want %d", i+1, got, want)
		}
	}
	token = s.Token()
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("a new token = %d, want 200", got)
	}
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/revoke", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", servertest.TestSecret)
	s.Do(r)
	if got := s.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("a revoked token = %d, want 401", got)
	}
	if got := s.Enters("guessed"); got != http.StatusUnauthorized {
		t.Errorf("a guessed token = %d, want 401", got)
	}
}

// A server elsewhere decides who passes. While it does not answer, no one does, and check says why.
func TestIntrospectElsewhere(t *testing.T) {
	var away atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		docs := map[string]map[string]any{
			"of-staff": {"active": true, "sub": "1", "username": "ada", "groups": []string{"staff"}, "aud": "https://api.example.com"},
			"no-staff": {"active": true, "sub": "2", "username": "bob", "aud": "https://api.example.com"},
			"other":    {"active": true, "sub": "1", "username": "ada", "groups": []string{"staff"}, "aud": "https://other.example.com"},
			"nowhere":  {"active": true, "sub": "1", "username": "ada", "groups": []string{"staff"}},
			"north": {
				"active": true, "sub": "1", "username": "ada", "groups": []string{"staff"},
				"aud": "https://api.example.com", "partition": "north",
			},
			"bound": {
				"active": true, "sub": "1", "groups": []string{"staff"}, "aud": "https://api.example.com",
				"cnf": map[string]any{"jkt": "x"},
			},
		}
		doc := docs[r.PostFormValue("token")]
		if doc == nil {
			doc = map[string]any{"active": false}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(doc) //nolint:errcheck // to a test
	}))
	t.Cleanup(elsewhere.Close)
	s := servertest.NewServer(t)
	s.Site = introspecting(elsewhere.URL, "groups staff\n\t\taudience https://api.example.com")
	s.MustLoad()
	for token, want := range map[string]int{
		"of-staff": http.StatusOK, "no-staff": http.StatusForbidden, "other": http.StatusUnauthorized, "nowhere": http.StatusUnauthorized,
		"north": http.StatusForbidden,
		"bound": http.StatusUnauthorized, "unknown": http.StatusUnauthorized, s.Token(): http.StatusUnauthorized, "": http.StatusBadRequest,
	} {
		if got := s.Enters(token); got != want {
			t.Errorf("the token %q = %d, want %d", token, got, want)
		}
	}
	_, figures := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil))
	for _, want := range []string{
		`gatehouse_remote_introspections_total{result="active",server="`,
		`gatehouse_remote_introspections_total{result="inactive",server="`, `gatehouse_remote_introspection_seconds_count{server="`,
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if all, err := s.Findings(); all != "" || err != nil {
		t.Errorf("check = %v, findings:\n%s", err, all)
	}

	away.Store(true)
	r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
	r.Header.Set("Authorization", "Bearer of-staff")
	resp, body := s.Do(r)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, "temporarily_unavailable") || strings.Contains(body, "in\n") {
		t.Errorf("while the server is away: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	s.WantFinding("warning", "Caddyfile:", "the server of introspect cannot be asked: the authorization server elsewhere: status 500")
	for range 20 {
		if got := s.Enters("of-staff"); got != http.StatusServiceUnavailable {
			t.Errorf("while the server is away = %d, want 503", got)
		}
	}
	s.WantFinding("introspect", "is left alone for some seconds")
	if _, figures := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil)); !strings.Contains(figures,
		`gatehouse_remote_introspection_breakers_open{server="`+strings.TrimPrefix(elsewhere.URL, "http://")+`"} 1`) {
		t.Error("/metrics does not tell that the server is left alone")
	}
	s.MustLoad() // a reload starts over
	away.Store(false)
	if got := s.Enters("of-staff"); got != http.StatusOK {
		t.Errorf("when the server is back = %d, want 200", got)
	}
}

// What a site with introspect leaves open is said before anybody finds it.
func TestIntrospectFindings(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = strings.Replace(introspecting(s.Issuer()+"/oauth/api/v2/token/introspect", ""), "client ops", "cache 2m\n\t\t\tclient ops", 1)
	s.MustLoad()
	s.WantFinding("warning", "Caddyfile:", "every token of the authorization server passes")
	s.WantFinding("warning", "Caddyfile:", "revoked tokens pass for longer than a minute")
}
