package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// TestCertificateExpiry: what ends within 30 days is in the metrics, the log and in check.
func TestCertificateExpiry(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	const day = 24 * time.Hour
	for name, lasts := range map[string]time.Duration{"next": 400 * day, "old": 20*day + time.Hour} {
		s.MustCall(http.MethodPost, "/v2/config/certificates", map[string]any{"key_pair": servertest.KeyPair(t, name, lasts)}, http.StatusOK)
	}
	_, metrics := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil))
	for name, want := range map[string]string{"old": "1.7", "next": "3.4"} {
		if line := `gatehouse_certificate_expiry_seconds{name="` + name + `"} ` + want; !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %s…", line)
		}
	}
	out := s.Run("", "check")
	if !strings.Contains(out, "certificate    old: ENDS SOON, on ") || !strings.Contains(out, "certificate    next: until ") {
		t.Errorf("check = %s, want both certificates", out)
	}
	answer := servertest.Decode[struct {
		Certificates []struct {
			Name string
			Soon bool
		}
	}](t, s.Run("", "check", "--json"))
	if len(answer.Certificates) != 2 || answer.Certificates[0].Name != "next" || answer.Certificates[0].Soon || !answer.Certificates[1].Soon {
		t.Errorf("check --json = %+v", answer)
	}
	// A reload knows them too, and the newest configuration is the one that is asked.
	s.MustLoad()
	if _, metrics := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil)); !strings.Contains(metrics,
		`gatehouse_certificate_expiry_seconds{name="old"}`) {
		t.Error("/metrics lost the certificates at a reload")
	}
}

// TestLargeCertificate: a client that sends megabytes gets the refusal soon.
func TestLargeCertificate(t *testing.T) {
	s := servertest.Configured(t, "")
	s.MustLoad()
	t.Run("attack 254: a PEM of 10 MB by HTTP", func(t *testing.T) {
		pair := servertest.KeyPair(t, "large", time.Hour)
		pair["private_key"] = strings.Repeat("QUFB", 10<<20/4)
		for _, path := range []string{"/v2/config/certificates", "/v2/config/certificates/batch"} {
			body := map[string]any{"key_pair": pair}
			if strings.HasSuffix(path, "batch") {
				body = map[string]any{"key_pairs": []any{pair}}
			}
			resp, text := s.Call(http.MethodPost, path, body)
			if resp.StatusCode != http.StatusBadRequest || strings.Contains(text, "QUFB") {
				t.Errorf("POST %s = %d %.100s, want 400", path, resp.StatusCode, text)
			}
		}
	})
}
