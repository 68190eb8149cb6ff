package caddymodule_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestWorkloadsGuide runs the two configurations of docs/workloads.md for jobs, with stand-ins for GitHub and for a
// cluster.
func TestWorkloadsGuide(t *testing.T) {
	raw, err := os.ReadFile("../docs/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		t.Fatal(err)
	}
	var github *httptest.Server
	github = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			w.Write(keys)
			return
		}
		json.NewEncoder(w).Encode(map[string]string{ //nolint:errcheck,errchkjson // the test sees it
			"issuer":   github.URL,
			"jwks_uri": github.URL + "/keys",
		})
	}))
	t.Cleanup(github.Close)

	s := servertest.NewServer(t)
	file := filepath.Join(s.Dir, "cluster-keys.json")
	servertest.WriteFile(t, file, string(keys), 0o600)
	inside := regexp.MustCompile(`(?s)issuer https://auth.example.com\n(.*?)\n\t}\n}`)
	jobs, _, _ := strings.Cut(string(raw), "## Assertions about people")
	for _, m := range regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(jobs, -1) {
		s.Extra += inside.FindStringSubmatch(m[1])[1] + "\n"
	}
	here := strings.NewReplacer("https://token.actions.githubusercontent.com", github.URL, "https://deploy.example.com", "http://"+s.API,
		"/etc/gatehouse/cluster-keys.json", file)
	s.Extra = here.Replace(s.Extra)
	s.Site = "protect deploy.write {\n\t\taudience http://" + s.API + "\n\t}"
	s.MustLoad()

	now := time.Now().Unix()
	ask := func(issuer, sub, jti string, form url.Values) (token, failure string) {
		t.Helper()
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := json.Marshal(map[string]any{"iss": issuer, "sub": sub, "aud": s.Issuer(), "iat": now, "exp": now + 600, "jti": jti})
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		assertion, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		form.Set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		form.Set("assertion", assertion)
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		_, body := s.Do(r)
		answer := servertest.Decode[struct {
			Token string `json:"access_token"`
			Error string `json:"error"`
		}](t, body)
		return answer.Token, answer.Error
	}
	deploy := func() url.Values { return url.Values{"scope": {"deploy.write"}, "resource": {"http://" + s.API}} }
	token, failure := ask(github.URL, "repo:example/app:ref:refs/heads/main", "a", deploy())
	if token == "" || s.Enters(token) != http.StatusOK {
		t.Errorf("a job on main: %q, %d", failure, s.Enters(token))
	}
	if token, failure = ask(github.URL, "repo:example/app:pull_request", "b", deploy()); token != "" || failure != "invalid_grant" {
		t.Errorf("a pull request: token %t, %q, want invalid_grant", token != "", failure)
	}
	const cluster = "https://kubernetes.default.svc.cluster.local"
	for range 2 {
		if token, failure = ask(cluster, "system:serviceaccount:shop:worker", "c", url.Values{"scope": {"orders.read"}}); token == "" {
			t.Errorf("a pod: %q", failure)
		}
	}
	if s.Enters(token) == http.StatusOK {
		t.Error("the token of the pod enters the site of the job")
	}
	if token, failure = ask(cluster, "system:serviceaccount:shop:other", "d", url.Values{}); token != "" || failure != "invalid_grant" {
		t.Errorf("another service account: token %t, %q, want invalid_grant", token != "", failure)
	}
}
