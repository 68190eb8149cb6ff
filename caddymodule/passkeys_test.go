package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestPasskeyOptions: the options of passkeys change what browsers are asked and told.
func TestPasskeyOptions(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	page := s.SignInPage()
	if !strings.Contains(page, `name="upgrade"`) || !strings.Contains(page, "rpId&#34;:&#34;localhost") {
		t.Errorf("without options the sign-in page is:\n%s", page)
	}
	if res, body := s.Get("/.well-known/webauthn"); res.StatusCode != http.StatusNotFound {
		t.Errorf("GET /.well-known/webauthn = %d %s, want 404", res.StatusCode, body)
	}
	s.InIdentity = "passkey_upgrade off\npasskey_rp_id old.example.com\npasskey_origins https://login.example.org"
	s.MustLoad()
	page = s.SignInPage()
	if strings.Contains(page, `name="upgrade"`) || !strings.Contains(page, "rpId&#34;:&#34;old.example.com") {
		t.Errorf("with options the sign-in page is:\n%s", page)
	}
	if _, body := s.Get("/.well-known/webauthn"); body != `{"origins":["`+s.Issuer()+`","https://login.example.org"]}` {
		t.Errorf("GET /.well-known/webauthn = %s", body)
	}
	for in, want := range map[string]string{
		"passkey_rp_id 127.0.0.1":                    `"127.0.0.1" is no host name`,
		"passkey_rp_id https://old.example.com":      "is no host name",
		"passkey_origins login.example.org":          `"login.example.org" is no origin: write https://`,
		"passkey_origins https://login.example.org/": "without a path",
		"passkey_origins https://*.example.org":      "is no origin",
		"passkey_origins https://a.org https://b.org https://c.org https://d.org https://e.org https://f.org": "browsers read at most",
		"passkey_upgrade maybe": "want one of: on, off",
	} {
		s.InIdentity = in
		_, err := servertest.Adapt(t, s.Caddyfile())
		if err == nil {
			err = s.Load()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}
