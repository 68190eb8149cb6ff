package caddymodule_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestHooks: check asks the services for text messages and prompts whether they are there, and shows them no secret.
func TestHooks(t *testing.T) {
	s := servertest.NewServer(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || r.Header.Get("Authorization") != "" {
			t.Errorf("%s with %v, want a HEAD without the token", r.Method, r.Header)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(srv.Close)
	hooks := func(url string) string {
		return "sms webhook " + url + "/sms {\n\theader Authorization the-token-of-the-gateway\n}\npush webhook " + url + "/push {\n\tsecret " +
			servertest.TestSecret + "\n}"
	}
	s.Extra = hooks(srv.URL)
	s.MustLoad()
	out := s.Run("", "check")
	for _, want := range []string{"sms            ok (0 waiting)", "push           ok (0 waiting)"} {
		if !strings.Contains(out, want) {
			t.Errorf("check = %s, want %q in it", out, want)
		}
	}
	s.Extra = hooks("http://" + servertest.FreeAddr(t))
	s.MustLoad()
	_, err := servertest.Run(t, "", "check", "--address", s.Admin)
	if err == nil || !strings.Contains(err.Error(), "the service for text messages") || strings.Contains(err.Error(), "token") {
		t.Errorf("check with services that are down = %v", err)
	}
	s.Extra = ""
	s.MustLoad()
	if out := s.Run("", "check"); strings.Contains(out, "sms ") || strings.Contains(out, "push ") {
		t.Errorf("check = %s, want nothing of text messages and prompts", out)
	}
}
