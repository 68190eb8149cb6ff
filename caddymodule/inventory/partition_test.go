package inventory_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// Two persons have one username, in two partitions. An application that knows people by their names must not take one
// for the other.
func TestPartitionsMeetUpstream(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(r.Header) //nolint:errcheck // to a test
	}))
	t.Cleanup(upstream.Close)
	s := servertest.NewServer(t)
	s.InIdentity = "partitions acme"
	s.Extra = `client legacy {
		secret ` + servertest.TestSecret + `
		grants password
		scopes openid profile email
		default_scopes openid profile email
	}
	api_client ops2 {
		secret ` + servertest.TestSecret + `
		apis introspection
	}`
	up := strings.TrimPrefix(upstream.URL, "http://")
	closed, both, every := servertest.FreeAddr(t), servertest.FreeAddr(t), servertest.FreeAddr(t)
	s.Site = fmt.Sprintf(`protect
		reverse_proxy %[1]s
	}
	http://%[2]s {
		protect {
			groups staff
		}
		reverse_proxy %[1]s
	}
	http://%[3]s {
		protect {
			partition default acme
			headers Remote-User username
			headers X-Partition partition
			headers Remote-Groups groups
			headers Remote-Email email
		}
		reverse_proxy %[1]s
	}
	http://%[4]s {
		protect {
			partition *
			groups acme\staff
		}
		handle {
			reverse_proxy %[1]s
		}`, up, closed, both, every)
	s.MustLoad()
	p := &servertest.Provisioning{Server: s}
	const here, there = "the one of default", "the one of acme"
	s.Run(here+"\n", "person", "add", "anna@example.com", "--groups", "staff")
	s.Run(there+"\n", "person", "add", `acme\anna@example.com`, "--groups", "staff,admins")
	mine := p.Token("legacy", p.Password("anna@example.com", here))
	theirs := p.Token("legacy", p.Password(`acme\anna@example.com`, there))

	ask := func(site, token string) (int, http.Header) {
		t.Helper()
		r := s.Request(http.MethodGet, "http://"+site+"/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		res, body := s.Do(r)
		h := http.Header{}
		if res.StatusCode == http.StatusOK {
			if err := json.Unmarshal([]byte(body), &h); err != nil {
				t.Fatalf("%s: %v in %s", site, err, body)
			}
		}
		return res.StatusCode, h
	}
	expect := func(site, token string, want map[string]string) {
		t.Helper()
		status, h := ask(site, token)
		for name, value := range want {
			if got := h.Get(name); got != value {
				t.Errorf("%s = %q, want %q (status %d)", name, got, value, status)
			}
		}
	}
	expect(s.API, mine, map[string]string{"Remote-User": "anna@example.com", "Remote-Groups": "staff", "Remote-Email": "anna@example.com"})
	expect(both, mine, map[string]string{"Remote-User": "anna@example.com", "X-Partition": "default"})
	expect(both, theirs, map[string]string{
		"Remote-User": `acme\anna@example.com`, "X-Partition": "acme", "Remote-Groups": `acme\staff,acme\admins`, "Remote-Email": "",
	})
	expect(every, theirs, map[string]string{"Remote-User": `acme\anna@example.com`})
	for name, c := range map[string]struct {
		site, token string
	}{
		"another partition than default": {s.API, theirs}, "a group of the same name": {closed, theirs},
		"a group of another partition": {every, mine},
	} {
		if status, _ := ask(c.site, c.token); status != http.StatusForbidden {
			t.Errorf("%s: status = %d, want 403", name, status)
		}
	}

	for token, want := range map[string]string{mine: "default anna@example.com", theirs: `acme acme\anna@example.com`} {
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/api/v2/token/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.SetBasicAuth("ops2", servertest.TestSecret)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		_, body := s.Do(r)
		got := servertest.Decode[struct{ Username, Partition string }](t, body)
		if got.Partition+" "+got.Username != want {
			t.Errorf("introspection = %s, want %s", body, want)
		}
		r = s.Request(http.MethodGet, s.Issuer()+"/oauth/userinfo", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		_, body = s.Do(r)
		claims := servertest.Decode[struct {
			Name      string `json:"preferred_username"`
			Partition string
			Verified  bool `json:"email_verified"`
		}](t, body)
		if claims.Partition+" "+claims.Name != want || claims.Verified != strings.HasPrefix(want, "default") {
			t.Errorf("userinfo = %s, want %s, verified in default alone", body, want)
		}
	}
}
