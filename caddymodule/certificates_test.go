package caddymodule_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// keyPair is a key pair as the certificates operations take it, whose certificate lasts this long.
func keyPair(t *testing.T, name string, lasts time.Duration) map[string]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keyPairOf(t, name, "EC", key, lasts)
}

// keyPairOf is a key pair with this key.
func keyPairOf(t *testing.T, name, kind string, key crypto.Signer, lasts time.Duration) map[string]string {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lasts)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	armor := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return map[string]string{"name": name, "key_type": kind, "private_key": armor("PRIVATE KEY", private), "public_key": armor("CERTIFICATE", cert)}
}

// TestCertificateExpiry: what ends within 30 days is in the metrics, the log and in check.
func TestCertificateExpiry(t *testing.T) {
	s := configured(t, "")
	s.mustLoad()
	const day = 24 * time.Hour
	for name, lasts := range map[string]time.Duration{"next": 400 * day, "old": 20*day + time.Hour} {
		s.mustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": keyPair(t, name, lasts)}, http.StatusOK)
	}
	_, metrics := s.do(s.request(http.MethodGet, "http://"+s.admin+"/metrics", nil))
	for name, want := range map[string]string{"old": "1.7", "next": "3.4"} {
		if line := `gatehouse_certificate_expiry_seconds{name="` + name + `"} ` + want; !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %s…", line)
		}
	}
	out := s.run("", "check")
	if !strings.Contains(out, "certificate    old: ENDS SOON, on ") || !strings.Contains(out, "certificate    next: until ") {
		t.Errorf("check = %s, want both certificates", out)
	}
	answer := decode[struct {
		Certificates []struct {
			Name string
			Soon bool
		}
	}](t, s.run("", "check", "--json"))
	if len(answer.Certificates) != 2 || answer.Certificates[0].Name != "next" || answer.Certificates[0].Soon || !answer.Certificates[1].Soon {
		t.Errorf("check --json = %+v", answer)
	}
	// A reload knows them too, and the newest configuration is the one that is asked.
	s.mustLoad()
	if _, metrics := s.do(s.request(http.MethodGet, "http://"+s.admin+"/metrics", nil)); !strings.Contains(metrics, `gatehouse_certificate_expiry_seconds{name="old"}`) {
		t.Error("/metrics lost the certificates at a reload")
	}
}

// TestLargeCertificate: a client that sends megabytes gets the refusal soon.
func TestLargeCertificate(t *testing.T) {
	s := configured(t, "")
	s.mustLoad()
	t.Run("attack 254: a PEM of 10 MB by HTTP", func(t *testing.T) {
		pair := keyPair(t, "large", time.Hour)
		pair["private_key"] = strings.Repeat("QUFB", 10<<20/4)
		for _, path := range []string{"/v2/config/certificates", "/v2/config/certificates/batch"} {
			body := map[string]any{"key_pair": pair}
			if strings.HasSuffix(path, "batch") {
				body = map[string]any{"key_pairs": []any{pair}}
			}
			resp, text := s.call(http.MethodPost, path, body)
			if resp.StatusCode != http.StatusBadRequest || strings.Contains(text, "QUFB") {
				t.Errorf("POST %s = %d %.100s, want 400", path, resp.StatusCode, text)
			}
		}
	})
}
