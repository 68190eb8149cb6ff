package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMutualTLS connects openid-client as a client with a certificate: no one else gets its tokens, and no one else can
// use them.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	s := &server{Callback: "http://127.0.0.1:1/callback", Echo: echo(t), OpsSecret: random(32)}
	s.t, s.dir, s.secrets = t, t.TempDir(), map[string]string{}
	s.secret("secret of ops", s.OpsSecret)
	pool := certify(t, s.dir)
	thumbprint := certifyClients(t, s.dir, "robot", "thief")["robot"]
	ports := freePorts(t, 5)
	at := func(i int) string { return fmt.Sprintf("https://localhost:%d", ports[i]) }
	s.Issuer = at(0)
	asks := fmt.Sprintf("tls %[1]s/cert.pem %[1]s/key.pem {\n\t\tclient_auth {\n\t\t\tmode verify_if_given\n\t\t\ttrust_pool file %[1]s/clients.pem\n\t\t}\n\t}", s.dir)
	s.write(fmt.Sprintf(`{
	admin localhost:%d
	persist_config off
	skip_install_trust
	default_bind 127.0.0.1
	grace_period 100ms
	auto_https disable_redirects
	http_port %d
	log {
		level DEBUG
	}
	gatehouse {
		issuer %s
		storage badger %s/data
		mtls_endpoint_aliases %s
		client robot {
			auth_method tls_client_auth san_dns robot.example.com
			mtls required
			grants client_credentials
			scopes %s
		}
		api_client ops {
			secret {env.TEST_OPS_SECRET}
			apis introspection
		}
	}
}

%s {
	tls %s/cert.pem %s/key.pem
	gatehouse
}

%s {
	%s
	gatehouse
}

%s {
	%s
	protect %s
	reverse_proxy %s
}
`, ports[3], ports[4], s.Issuer, s.dir, at(1), apiScope, s.Issuer, s.dir, s.dir, at(1), asks, at(2), asks, apiScope, s.Echo))
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir, "TEST_OPS_SECRET="+s.OpsSecret)
	s.until(t, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}},
		s.Issuer+"/healthz")

	cmd := exec.CommandContext(t.Context(), "node", "node/openid-client-mtls.mjs")
	cmd.Env = environ(s.dir, "DIR="+s.dir, "ISSUER="+s.Issuer, "API="+at(2)+"/orders", "SCOPE="+apiScope, "API_CLIENT_SECRET="+s.OpsSecret,
		"THUMBPRINT="+thumbprint)
	out, err := cmd.CombinedOutput()
	var steps []string
	for line := range strings.Lines(string(out)) {
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "ok":
			steps = append(steps, rest)
		case "secret":
			s.secret("token of the robot", rest)
		}
	}
	if got := strings.Join(steps, " "); got != "token bound site thief" || err != nil {
		t.Errorf("openid-client did %q: %v\n%s", got, err, out)
	}
}

// certifyClients writes certificates and keys of clients into dir, and clients.pem, the authority that has signed them.
// It returns their thumbprints.
func certifyClients(t *testing.T, dir string, names ...string) map[string]string {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sign := func(c, by *x509.Certificate, public any, signer *ecdsa.PrivateKey) []byte {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, by, public, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	authority, signer := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, key()
	write("clients.pem", "CERTIFICATE", sign(authority, authority, signer.Public(), signer))
	thumbprints := map[string]string{}
	for i, name := range names {
		k := key()
		der := sign(&x509.Certificate{
			SerialNumber: big.NewInt(int64(i) + 2), DNSNames: []string{name + ".example.com"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, authority, k.Public(), signer)
		secret, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		write(name+".key", "PRIVATE KEY", secret)
		sum := sha256.Sum256(der)
		thumbprints[name] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return thumbprints
}
