package caddymodule_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestPasskeys: the sign-in page offers passkeys where browsers allow them, unless the Caddyfile switches them off.
func TestPasskeys(t *testing.T) {
	s := servertest.Configured(t, "")
	page := func() string {
		t.Helper()
		s.Transport.CloseIdleConnections()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: servertest.Patient{Transport: s.Transport}, Jar: jar}).Do(s.Request(http.MethodGet,
			s.Issuer()+"/sign-in", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `name="password"`) {
			t.Fatalf("the sign-in page: %d, %v\n%s", resp.StatusCode, err, body)
		}
		return string(body)
	}
	s.MustLoad()
	if !strings.Contains(page(), "data-passkey") {
		t.Errorf("%s offers no passkeys", s.Issuer())
	}
	s.InIdentity = "passkeys off"
	s.MustLoad()
	if strings.Contains(page(), "asskey") {
		t.Error("passkeys are off, and the page offers them")
	}
}
