package provider_test

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// publicOf is the public key of a key pair of keyPair.
func publicOf(t *testing.T, pair map[string]string) crypto.PublicKey {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(pair["private_key"])
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(crypto.Signer).Public()
}

// at takes a browser to a provider, and returns the page there.
func at(s *servertest.Server, b *servertest.Browser, id string) (page *http.Response, body string) {
	s.T.Helper()
	page, _ = b.Open("http://" + s.API + "/")
	return b.Open(s.Issuer() + "/sign-in/provider?" + url.Values{"flow": {page.Request.URL.Query().Get("flow")}, "idp": {id}}.Encode())
}

// TestApple walks people through a site by way of Apple, whose answer is a form of another site.
func TestApple(t *testing.T) {
	pair := servertest.KeyPair(t, "apple", time.Hour)
	apple := oidctest.NewApple(t, publicOf(t, pair))
	s := servertest.Configured(t, `
		idp apple apple {
			issuer `+apple.URL+`
			client_id `+oidctest.ClientID+`
			team_id `+oidctest.AppleTeam+`
			key_id `+oidctest.AppleKey+`
			key apple
			map email email
			map name name
			map email username
			couple email
		}`)
	s.Site = remoteSite
	s.MustLoad()
	s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": pair}, http.StatusOK)
	site := "http://" + s.API + "/"
	ann := "[ann@example.com] [ann@example.com]"
	b := servertest.NewBrowser(t)
	page, form := at(s, b, "apple")
	if !strings.HasPrefix(page.Request.URL.String(), apple.URL) {
		t.Fatalf("the browser is at %s: %d %s", page.Request.URL, page.StatusCode, form)
	}
	if page, body := b.Submit(page, form, url.Values{}); page.Request.URL.String() != site || body != ann {
		t.Fatalf("ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	if out := s.Run("", "person", "show", "ann@example.com", "--json"); !strings.Contains(out, "Ann Example") {
		t.Errorf("the name of the first sign-in is not kept: %s", out)
	}
	t.Run("attack 587: the same form again, and in another browser", func(t *testing.T) {
		for name, with := range map[string]*servertest.Browser{"again": b, "another browser": servertest.NewBrowser(t)} {
			if page, body := with.Submit(page, form, url.Values{}); page.StatusCode < 400 {
				t.Errorf("%s ended at %s: %d %s", name, page.Request.URL, page.StatusCode, body)
			}
		}
		fresh := servertest.NewBrowser(t)
		page, form := at(s, fresh, "apple")
		if page, body := servertest.NewBrowser(t).Submit(page, form, url.Values{}); page.StatusCode < 400 {
			t.Errorf("the form of another browser ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
		}
		if page, body := fresh.Submit(page, form, url.Values{}); page.Request.URL.String() != site || body != ann {
			t.Errorf("the second sign-in ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
		}
	})
	if out := s.Run("", "person", "show", "ann@example.com", "--json"); !strings.Contains(out, "Ann Example") {
		t.Errorf("the name is lost at the second sign-in, which does not tell it: %s", out)
	}
	for _, want := range []string{"fetched from " + apple.URL, "makes the client secret", "the provider knows the client"} {
		if out := s.Run("", "idp", "test", "apple"); !strings.Contains(out, want) {
			t.Errorf("idp test lacks %q:\n%s", want, out)
		}
	}
	t.Run("attack 589: a relay address of Apple that somebody else has here", func(t *testing.T) {
		apple.Change(func(o *oidctest.Script) {
			o.Sub = "001234.another.0001"
			o.IDToken["email"], o.IDToken["is_private_email"] = "ann@example.com", "true"
		})
		b := servertest.NewBrowser(t)
		page, form := at(s, b, "apple")
		if page, body := b.Submit(page, form, url.Values{}); page.Request.URL.String() == site {
			t.Errorf("it opened an account without asking: %s", body)
		}
	})
}

// TestAppleDomainFile: Apple finds the file of the setting, of a method that is off too, and no other.
func TestAppleDomainFile(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	const path = "/.well-known/apple-developer-domain-association.txt"
	get := func(want int) string {
		t.Helper()
		res, err := http.Get(s.Issuer() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want {
			t.Fatalf("status %d, %v, want %d", res.StatusCode, err, want)
		}
		if want == http.StatusOK && !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("it is %s", res.Header.Get("Content-Type"))
		}
		return string(body)
	}
	get(http.StatusNotFound)
	s.MustCall(http.MethodPost, "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"apple","name":"Apple","type":"APPLE","enabled":false,
		"apple_attributes":{"domain_verification_file_content":"MIIP <proof>"}}]}}`), http.StatusNoContent)
	if got := get(http.StatusOK); got != "MIIP <proof>" {
		t.Errorf("%q", got)
	}
	file := filepath.Join(t.TempDir(), "association.txt")
	if err := os.WriteFile(file, []byte("of the Caddyfile\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.MustCall(http.MethodPost, "/api/v2/config", servertest.Decode[any](t, `{"login_methods":{"login_methods":[]}}`), http.StatusNoContent)
	s.Extra += "\nidp apple apple {\n\tclient_id x\n\tteam_id TEAM123456\n\tkey_id KEY1234567\n\tkey apple\n\tdisabled\n\tdomain_verification_file " + file + "\n}\n"
	s.MustLoad()
	if got := get(http.StatusOK); got != "of the Caddyfile\n" {
		t.Errorf("%q", got)
	}
}

// TestItsme walks a person through a site by way of itsme, which fetches our keys, and keeps out who signed in at less
// than the level that is demanded.
func TestItsme(t *testing.T) {
	s := servertest.Configured(t, "")
	itsme := oidctest.NewItsme(t, func() (set jose.JSONWebKeySet) {
		res, err := http.Get(s.Issuer() + "/oidc/itsme/jwks")
		if err != nil {
			t.Error(err)
			return set
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&set); err != nil {
			t.Error(err)
		}
		return set
	})
	s.Extra += `
		idp itsme itsme {
			issuer ` + itsme.URL + `/v2
			client_id ` + oidctest.ClientID + `
			service_code ` + oidctest.ItsmeService + `
			security_level advanced
			map email email
		}`
	s.Site = remoteSite
	s.MustLoad()
	site := "http://" + s.API + "/"
	if page, body := by(s, "itsme"); page.Request.URL.String() != site || !strings.HasPrefix(body, "[itsme-") {
		t.Fatalf("ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
	for _, want := range []string{
		"fetched from " + itsme.URL + "/v2/",
		"the provider finds the public keys at " + s.Issuer() + "/oidc/itsme/jwks", "the provider knows the client",
	} {
		if out := s.Run("", "idp", "test", "itsme"); !strings.Contains(out, want) {
			t.Errorf("idp test lacks %q:\n%s", want, out)
		}
	}
	itsme.Change(func(o *oidctest.Script) { o.IDToken["acr"] = oidctest.ItsmeBasic })
	if page, body := by(s, "itsme"); page.Request.URL.String() == site || page.StatusCode < 400 {
		t.Errorf("at a lower level ended at %s: %d %s", page.Request.URL, page.StatusCode, body)
	}
}

// TestAppleAndItsmeMethods: login methods of the API need what the provider knows Gatehouse by. Then people are offered
// them.
func TestAppleAndItsmeMethods(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": servertest.KeyPair(t, "apple", time.Hour)},
		http.StatusOK)
	method := func(kind, members string) any {
		return servertest.Decode[any](t, `{"login_methods":{"login_methods":[{"id":"x","name":"X","type":"`+kind+`","enabled":true,"`+
			strings.ToLower(kind)+`_attributes":{`+members+`}}]}}`)
	}
	for _, c := range []struct{ kind, members, want string }{
		{"APPLE", ``, "client_id"},
		{"APPLE", `"client_id":"com.example.auth","team_id":"ABCDE12345","key_id":"FGHIJ67890"`, "signing_key_id"},
		{"APPLE", `"client_id":"com.example.auth","team_id":"ABCDE12345","key_id":"FGHIJ67890","signing_key_id":"nobody"`, "no such key pair"},
		{"APPLE", `"client_id":"com.example.auth","team_id":"team","key_id":"FGHIJ67890","signing_key_id":"apple"`, "team_id"},
		{"APPLE", `"client_id":"com.example.auth","team_id":"ABCDE12345","key_id":"FGHIJ67890","signing_key_id":"apple"`, ""},
		{"ITSME", `"client_id":"gatehouse"`, "login_service_code"},
		{"ITSME", `"client_id":"gatehouse","login_service_code":"MY_LOGIN","security_level":"ADVANCED"`, ""},
	} {
		if c.want != "" {
			if body := s.MustCall(http.MethodPost, "/api/v2/config", method(c.kind, c.members),
				http.StatusBadRequest); !strings.Contains(body, c.want) {
				t.Errorf("%s %s: %s, want %q", c.kind, c.members, body, c.want)
			}
			continue
		}
		s.MustCall(http.MethodPost, "/api/v2/config", method(c.kind, c.members), http.StatusNoContent)
		if page := s.SignInPage(); !strings.Contains(page, "Continue with X") {
			t.Errorf("the page does not offer %s:\n%s", c.kind, page)
		}
	}
}
