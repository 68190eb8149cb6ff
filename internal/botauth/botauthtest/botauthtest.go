// Package botauthtest has robots for tests: a key, its directory over https, and requests that are signed by it.
package botauthtest

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Robot is a robot with its key directory.
type Robot struct {
	t       testing.TB
	Key     ed25519.PrivateKey
	ID      string // of the key
	Domain  string
	Client  *http.Client // reaches the directory
	Fetches atomic.Int64
	Answer  atomic.Pointer[http.HandlerFunc] // in place of the directory. nil: the directory
}

// New starts a robot.
func New(t testing.TB) *Robot {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jwk := jose.JSONWebKey{Key: public}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	b := &Robot{t: t, Key: key, ID: base64.RawURLEncoding.EncodeToString(sum)}
	directory, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwk}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.Fetches.Add(1)
		if answer := b.Answer.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		if r.URL.Path != "/.well-known/http-message-signatures-directory" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/http-message-signatures-directory+json")
		w.Write(directory) //nolint:errcheck // the client has gone
	}))
	t.Cleanup(s.Close)
	b.Client, b.Domain = s.Client(), strings.TrimPrefix(s.URL, "https://")
	return b
}

// Sign returns the headers of a signed request to a host at a time. change replaces parts of what is signed: the
// components, each with its value, and the parameters.
func (b *Robot) Sign(host string, at time.Time, change ...string) map[string]string {
	b.t.Helper()
	agent := `sig1="https://` + b.Domain + `"`
	parts := map[string]string{
		"components": `"@authority" "signature-agent";key="sig1"`,
		"base":       `"@authority": ` + host + "\n" + `"signature-agent";key="sig1": "https://` + b.Domain + `"`,
		"created":    fmt.Sprint(at.Unix()), "expires": fmt.Sprint(at.Add(time.Minute).Unix()),
		"nonce": rand.Text(), "keyid": b.ID, "alg": "ed25519", "tag": "web-bot-auth",
	}
	for i := 0; i+1 < len(change); i += 2 {
		parts[change[i]] = change[i+1]
	}
	params := fmt.Sprintf(`(%s);created=%s;expires=%s;nonce="%s";keyid="%s";alg="%s";tag="%s"`, parts["components"], parts["created"],
		parts["expires"], parts["nonce"], parts["keyid"], parts["alg"], parts["tag"])
	signed := ed25519.Sign(b.Key, []byte(parts["base"]+"\n"+`"@signature-params": `+params))
	return map[string]string{
		"Signature-Agent": agent, "Signature-Input": "sig1=" + params,
		"Signature": "sig1=:" + base64.StdEncoding.EncodeToString(signed) + ":",
	}
}
