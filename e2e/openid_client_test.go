package e2e

import (
	"bufio"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClientLibraries connects libraries that applications use: npm's openid-client, which is certified;
// passport-openidconnect, a confidential client without PKCE that sends its secret in the body; Python's
// requests-oauthlib.
func TestClientLibraries(t *testing.T) {
	t.Parallel()
	for _, l := range []struct {
		name, client string
		command      []string
		consents     bool // the person is asked
		want         string
	}{
		{
			"openid-client", "shop",
			[]string{"node", "node/openid-client.mjs"},
			true,
			"discovery code userinfo introspect refresh introspect_revoked refresh_revoked client_credentials device par signed dpop dpop_nonce logout_url",
		},
		{"passport-openidconnect", "passport", []string{"node", "node/passport-openidconnect.mjs"}, false, "redirect callback replay"},
		{
			"requests-oauthlib", "shop",
			[]string{"/usr/bin/python3", "python/requests_oauthlib_driver.py"},
			true,
			"code userinfo refresh client_credentials",
		},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if got := drive(t, l.client, l.consents, l.command); got != l.want {
				t.Errorf("%s did %q, want %q", l.name, got, l.want)
			}
		})
	}
}

// signerClient is a client with keys, before the client passport.
const signerClient = `client signer {
			auth_method private_key_jwt
			jwks %s
			request_object required
			authorization_response_alg ES256
			id_token_alg ES256
			id_token_encryption ECDH-ES
			redirect_uris %s
			grants authorization_code
			scopes openid profile
			consent off
		}
		client passport {`

// newKeys returns a set of two public keys, one for signatures and one for encryption, and the same as private ones.
func newKeys(t *testing.T) (public, private string) {
	t.Helper()
	var open, closed []map[string]string
	for _, use := range []string{"sig", "enc"} {
		key, err := ecdh.P256().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		text, point := base64.RawURLEncoding.EncodeToString, key.PublicKey().Bytes()
		jwk := map[string]string{"kty": "EC", "crv": "P-256", "kid": use, "use": use, "x": text(point[1:33]), "y": text(point[33:])}
		open = append(open, maps.Clone(jwk))
		jwk["d"] = text(key.Bytes())
		closed = append(closed, jwk)
	}
	set := func(keys []map[string]string) string {
		raw, err := json.Marshal(map[string]any{"keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	return set(open), set(closed)
}

// drive runs a driver. The driver prints the address where the person must sign in. The test takes a browser there and
// returns the final address to the driver. The result is the list of successful steps.
func drive(t *testing.T, client string, consents bool, command []string) string {
	t.Helper()
	// Its callback fails, because the state is unknown to it; only the address matters.
	public, private := newKeys(t)
	keys := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(keys, []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	_, s := openShopEdited(t, func(config string) string {
		_, after, _ := strings.Cut(config, "redirect_uris ")
		callback, _, _ := strings.Cut(after, "\n")
		return strings.Replace(config, "client passport {", fmt.Sprintf(signerClient, keys, callback), 1)
	})
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // of the table above
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = environ(s.dir, "ISSUER="+s.Issuer, "CLIENT_ID="+client, "CLIENT_SECRET="+s.ShopSecret, "REDIRECT_URI="+s.Callback,
		"SCOPE=openid profile "+apiScope, "API_CLIENT_ID=ops", "API_CLIENT_SECRET="+s.OpsSecret, "PERSON="+person,
		"API="+s.API, "SIGNER_KEYS="+private)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v: make install", command[0], err)
	}
	b := s.browse(t)
	var steps []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "open":
			b.open(rest)
			b.signIn(person, s.Password)
			if consents {
				b.click("button[value=allow]")
			}
			if _, err := in.Write([]byte(b.location() + "\n")); err != nil {
				t.Fatal(err)
			}
		case "go": // signed in, and asked before
			b.open(rest)
			if _, err := in.Write([]byte(b.location() + "\n")); err != nil {
				t.Fatal(err)
			}
		case "device":
			b.open(rest)
			b.click("form[action='/device'] button")
			b.click("button[value=allow]")
		case "secret":
			s.secret("token at "+command[1], rest)
		case "ok":
			steps = append(steps, rest)
		default:
			t.Errorf("%s: %s", command[1], lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", command[1], err, errs.String())
	}
	return strings.Join(steps, " ")
}
