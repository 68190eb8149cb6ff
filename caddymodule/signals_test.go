package caddymodule_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// A receiver of shared signals hears of a person who is blocked by command, once the Caddyfile has them, and of the
// profile that the scopes of its client give.
func TestSharedSignals(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = "shared_signals all\n client siem {\n\tsecret " + servertest.TestSecret +
		"\n\tgrants client_credentials\n\tscopes ssf.manage\n}\n"
	s.MustLoad()
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token",
		strings.NewReader(url.Values{"grant_type": {"client_credentials"}, "scope": {"ssf.manage"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("siem", servertest.TestSecret)
	_, body := s.Do(r)
	_, rest, _ := strings.Cut(body, `"access_token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	ask := func(path, body string, want int) string {
		t.Helper()
		r := s.Request(http.MethodPost, s.Issuer()+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		resp, text := s.Do(r)
		if resp.StatusCode != want {
			t.Fatalf("%s = %d %s, want %d", path, resp.StatusCode, text, want)
		}
		return text
	}
	ask("/ssf/stream", "{}", http.StatusCreated)
	s.Run("", "person", "block", "demo@example.com")
	told := ""
	for _, set := range strings.Split(ask("/ssf/poll", `{"returnImmediately":true}`, http.StatusOK), `"`) {
		if parts := strings.Split(set, "."); len(parts) == 3 {
			payload, err := base64.RawURLEncoding.DecodeString(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			told += string(payload)
		}
	}
	for _, want := range []string{
		"risc/event-type/account-disabled", "caep/event-type/session-revoked", `"aud":"siem"`,
		`"iss":"` + s.Issuer() + `"`,
	} {
		if !strings.Contains(told, want) {
			t.Errorf("told %s, want %s", told, want)
		}
	}
	s.Extra = strings.TrimPrefix(s.Extra, "shared_signals all\n")
	s.MustLoad()
	if resp, _ := s.Get("/.well-known/ssf-configuration"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without shared_signals: %d", resp.StatusCode)
	}
}
