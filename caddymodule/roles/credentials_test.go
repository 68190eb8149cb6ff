package roles_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

const credentialsKey = "000102030405060708090a0b0c0d0e0f"

// encrypted is the body of validate as a client of the API makes it.
func encrypted(t *testing.T, username, password string) map[string]string {
	t.Helper()
	key, err := hex.DecodeString(credentialsKey)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	iv := make([]byte, 12)
	rand.Read(iv) //nolint:errcheck // never fails
	return map[string]string{
		"username": username, "password": base64.StdEncoding.EncodeToString(aead.Seal(nil, iv, []byte(password), nil)),
		"encryption_parameter": base64.StdEncoding.EncodeToString(iv),
	}
}

// TestCredentialsAPI: the key of the Caddyfile, and what comes without one.
func TestCredentialsAPI(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	const path = "/api/credentials/validate"
	if resp, body := s.Call(http.MethodPost, path, encrypted(t, "demo@example.com", servertest.TestPassword)); resp.StatusCode != 503 ||
		!strings.Contains(body, "1001") {
		t.Errorf("without a key = %d %s, want 503 with 1001", resp.StatusCode, body)
	}
	s.InIdentity = "credentials_key " + credentialsKey
	s.MustLoad()
	s.Transport.CloseIdleConnections() // the reload ends them, and a POST is not sent again
	if body := s.MustCall(http.MethodPost, path, encrypted(t, "demo@example.com", servertest.TestPassword), 200); !strings.Contains(body,
		`"value":"demo@example.com"`) {
		t.Errorf("validate = %s, want the profile", body)
	}
	if body := s.MustCall(http.MethodPost, path, encrypted(t, "demo@example.com", "wrong"), 401); !strings.Contains(body, "3013") {
		t.Errorf("validate = %s, want 3013", body)
	}
}

// TestActionTokens: made by command and by API, processed by an API client, and a browser that is signed in; no log has
// the ticket.
func TestActionTokens(t *testing.T) {
	s := servertest.Configured(t, "")
	file := filepath.Join(s.Dir, "log")
	s.Options = "log {\n\t\toutput file " + file + "\n\t}"
	s.MustLoad()
	s.MustCall(http.MethodPost, "/api/v2/config/features",
		map[string]any{"action_token": map[string]any{"login": map[string]any{"enabled": true}}}, 204)
	s.MustCall(http.MethodPost, "/api/v2/config/features/action-token/whitelisted-urls",
		map[string]string{"url": s.Issuer() + "/account"}, 201)
	token := strings.TrimSpace(s.Run("", "token", "action", "demo@example.com", "--level", "2", "--redirect-uri",
		s.Issuer()+"/account", "--ttl", "1m"))
	answer := servertest.Decode[struct {
		RedirectURI string `json:"redirect_uri"`
	}](t, s.MustCall(http.MethodPost, "/api/credentials/token", map[string]string{"token": token}, 200))
	_, ticket, found := strings.Cut(answer.RedirectURI, s.Issuer()+"/sign-in/token?ticket=")
	if !found {
		t.Fatalf("redirect_uri = %q", answer.RedirectURI)
	}
	s.MustCall(http.MethodPost, "/api/credentials/token", map[string]string{"token": token}, 400)
	resp, _ := s.Do(s.Request(http.MethodGet, answer.RedirectURI, nil))
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/sign-in/token" || len(resp.Cookies()) == 0 {
		t.Errorf("GET of redirect_uri = %d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	log, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(log), ticket) || strings.Contains(string(log), token) {
		t.Errorf("the log holds a secret, %v", err)
	}

	made := servertest.Decode[struct{ ID, Token string }](t, s.Run("", "token", "action", "demo@example.com", "--json"))
	s.MustCall(http.MethodPost, "/api/credentials/tokens/validate", map[string]string{"token": made.Token}, 204)
	s.Run("", "token", "revoke-actions", "demo@example.com", made.ID)
	s.MustCall(http.MethodPost, "/api/credentials/tokens/validate", map[string]string{"token": made.Token}, 401)
	s.Refused("no such action token", "", "token", "revoke-actions", "demo@example.com", made.ID)
	s.Run("", "token", "revoke-actions", "demo@example.com")
	s.Refused("not whitelisted", "", "token", "action", "demo@example.com", "--redirect-uri", "https://evil.example/")
	s.Refused("no person nobody", "", "token", "action", "nobody")
	s.Refused("needs the parameter", "", "token", "action", "demo@example.com", "--action", "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS",
		"--param", "idp_id=partner")
	s.Refused("not name=value", "", "token", "action", "demo@example.com", "--param", "idp_id")
}
