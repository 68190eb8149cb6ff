package console

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/stats"
)

// TestKeysInTheConsole: an owner replaces the keys and retires one that others may have; its public part is for
// everybody who sees the console.
func TestKeysInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owner, viewer := h.as("owner@example.com"), h.as("viewer@example.com")
	signs := func() (id string) {
		for _, k := range h.az.SigningKeys() {
			if k.Algorithm == "ES256" && k.Use == "signs" {
				id = k.ID
			}
		}
		return id
	}
	before := signs()
	shown := viewer.get("/admin/keys")
	if shown.Code != http.StatusOK || !strings.Contains(shown.form(), before) || strings.Contains(shown.form(), "retire-key") {
		t.Errorf("the keys for a viewer = %d\n%s", shown.Code, shown.form())
	}
	file := viewer.submit(viewer.get("/admin/keys/public-key?key=" + before))
	if file.Code != http.StatusOK || !strings.Contains(file.Header().Get("Content-Disposition"), "attachment") ||
		!strings.Contains(file.Body.String(), `"kid": "`+before) || strings.Contains(file.Body.String(), `"d"`) {
		t.Errorf("the public part = %d %s", file.Code, file.Body)
	}
	token, err := h.keys.Sign("ES256", keys.TypeIDToken, map[string]string{})
	h.must(err)
	if a := owner.acts("/admin/keys/retire-key?key=" + before); a.Code != http.StatusOK || !strings.Contains(a.form(), `role="status"`) ||
		strings.Contains(a.form(), before) {
		t.Errorf("after one was retired: %d\n%s", a.Code, a.form())
	}
	if _, err := h.keys.Verify(token, keys.TypeIDToken); err == nil || signs() == before || signs() == "" {
		t.Errorf("a token of the retired key: %v; %s signs", err, signs())
	}
	if a := owner.acts("/admin/keys/retire-key?key=" + before); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("retired twice = %d", a.Code)
	}
	own, err := h.settings.KeyPairs().Get(t.Context(), "")
	h.must(err)
	if a := owner.acts("/admin/keys/renew-pair?pair=own"); a.Code != http.StatusOK || !strings.Contains(a.form(), `role="status"`) {
		t.Errorf("new keys of the own key pair: %d\n%s", a.Code, a.form())
	}
	now, err := h.settings.KeyPairs().Get(t.Context(), "")
	h.must(err)
	if own.Certificate.Equal(now.Certificate) || own.Certificate.Subject.String() != now.Certificate.Subject.String() || now.Key == nil {
		t.Error("the key pair has the keys of before")
	}
	pem := viewer.submit(viewer.get("/admin/keys/public-pair?pair=own"))
	if !strings.HasPrefix(pem.Body.String(), "-----BEGIN CERTIFICATE-----") || strings.Contains(pem.Body.String(), "PRIVATE") {
		t.Errorf("the public part of the key pair: %s", pem.Body)
	}
}

// TestRotatePairInTheConsole: the next key is published next to the one that signs, then signs, and then the former one
// is retired; the page of a provider says what is left of its certificates and of our keys, and leads on.
func TestRotatePairInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	before, err := h.settings.KeyPairs().Get(t.Context(), "")
	h.must(err)
	now := h.clock.Now()
	h.providers.certificates = map[string][]*x509.Certificate{"declared": {
		{Raw: []byte("a"), Subject: pkix.Name{CommonName: "old signer"}, NotAfter: now.Add(-time.Hour)},
		{Raw: []byte("b"), Subject: pkix.Name{CommonName: "new signer"}, NotAfter: now.Add(12*24*time.Hour + time.Hour)},
	}}
	h.providers.uses = map[string][]idp.KeyUse{"declared": {{Use: idp.UseSign}, {Use: idp.UseDecrypt}}}
	owner, viewer := h.as("owner@example.com"), h.as("viewer@example.com")
	see := func(a *answer, status int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
	}
	step := func(act string) string { return "/admin/keys/" + act + "?pair=own" }
	see(owner.get("/admin/providers/declared"), 200, "old signer", "Expired", "new signer", "12 days left", "own key pair",
		`href="`+step("announce-pair")+`"`)
	if a := viewer.get("/admin/providers/declared"); strings.Contains(a.form(), "announce-pair") || !strings.Contains(a.form(), "new signer") {
		t.Errorf("the page for a viewer:\n%s", a.form())
	}
	see(viewer.get("/admin"), 200, "old signer", "new signer", `href="/admin/providers/declared"`)
	see(owner.acts(step("switch-pair")), http.StatusUnprocessableEntity, "at another step")
	see(owner.acts(step("retire-pair")), http.StatusUnprocessableEntity, "at another step")
	see(owner.acts(step("announce-pair")), 200, `href="`+step("switch-pair")+`"`, `role="status"`)
	see(owner.acts(step("announce-pair")), http.StatusUnprocessableEntity, "at another step")
	pair, err := h.settings.KeyPairs().Get(t.Context(), "")
	h.must(err)
	if !pair.Certificate.Equal(before.Certificate) || len(pair.Others) != 1 || pair.Others[0].Certificate.Equal(before.Certificate) {
		t.Fatalf("after the next key was announced: %d beside it", len(pair.Others))
	}
	next := pair.Others[0].Certificate
	if pem := viewer.submit(viewer.get("/admin/keys/public-pair?pair=own")); strings.Count(pem.Body.String(), "BEGIN CERTIFICATE") != 2 ||
		strings.Contains(pem.Body.String(), "PRIVATE") {
		t.Errorf("the public part has not both certificates: %s", pem.Body)
	}
	see(owner.acts(step("switch-pair")), 200, `href="`+step("retire-pair")+`"`)
	see(owner.acts(step("announce-pair")), http.StatusUnprocessableEntity, "at another step") // the former one would be lost
	t.Run("attack 883: in the console and in events", func(t *testing.T) {
		der, err := x509.MarshalPKCS8PrivateKey(before.Key)
		h.must(err)
		private := base64.StdEncoding.EncodeToString(der)[:64] // a line of PEM
		for _, b := range []*browser{owner, viewer} {
			for _, path := range []string{"/admin/keys", "/admin/providers/declared", "/admin/events", step("retire-pair")} {
				if a := b.get(path); strings.Contains(a.Body.String(), private) || strings.Contains(a.Body.String(), "PRIVATE") {
					t.Errorf("%s tells the private key", path)
				}
			}
			if file := b.submit(b.get("/admin/keys/public-pair?pair=own")).Body.String(); strings.Contains(file, private) ||
				strings.Contains(file, "PRIVATE") || strings.Count(file, "BEGIN CERTIFICATE") != 2 {
				t.Errorf("the public part is %s", file)
			}
		}
		for _, e := range h.allEvents(t.Context()) {
			if raw, err := json.Marshal(e); err != nil || strings.Contains(string(raw), private) {
				t.Errorf("an event tells the private key, or %v", err)
			}
		}
	})
	if pair, err = h.settings.KeyPairs().Get(t.Context(), ""); err != nil || !pair.Certificate.Equal(next) || len(pair.Others) != 1 ||
		!pair.Others[0].Certificate.Equal(before.Certificate) || pair.Others[0].Key == nil {
		t.Fatalf("after the switch: %v, %d beside it", err, len(pair.Others))
	}
	see(owner.acts(step("retire-pair")), 200, `href="`+step("announce-pair")+`"`)
	if pair, err = h.settings.KeyPairs().Get(t.Context(), ""); err != nil || !pair.Certificate.Equal(next) || len(pair.Others) != 0 {
		t.Errorf("after the former one was retired: %v, %d beside it", err, len(pair.Others))
	}
}

// TestAPIClientsInTheConsole: what may call the APIs, when it did last and from where.
func TestAPIClientsInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	counts := stats.NewBuffer(h.store, h.clock.Now, rand.Reader, zap.NewNop())
	counts.Called("billing", "203.0.113.9")
	counts.Flush(t.Context())
	h.count()
	a := b.get("/admin/api-clients")
	for _, want := range []string{"203.0.113.9", "billing", "events, introspection", "Caddyfile:40"} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the page lacks %q:\n%s", want, a.form())
		}
	}
}

// TestKeyPairsRefusedInTheConsole: what is wrong with key pairs that are imported, or with a step of their rotation, is
// said in the language of the page.
func TestKeyPairsRefusedInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	pair := func(kind, public string) string {
		raw, err := json.Marshal(map[string]any{"key_pairs": []any{map[string]string{
			"name": "partner", "key_type": kind, "private_key": "", "public_key": base64.StdEncoding.EncodeToString([]byte(public)),
		}}})
		h.must(err)
		return string(raw)
	}
	owner := h.as("owner@example.com")
	for language, want := range map[string][3]string{
		"en": {"This is not PEM.", "Choose one of these: RSA, EC, ML-DSA, CERTIFICATE, KEYTAB.", "is at another step by now"},
		"nl": {"Dit is geen PEM.", "Kies een van deze: RSA, EC, ML-DSA, CERTIFICATE, KEYTAB.", "inmiddels bij een andere stap"},
		"de": {"Das ist kein PEM.", "RSA, EC, ML-DSA, CERTIFICATE, KEYTAB.", "inzwischen an einem anderen Schritt"},
		"fr": {"Ce n’est pas du PEM.", "RSA, EC, ML-DSA, CERTIFICATE, KEYTAB.", "en est à une autre étape"},
	} {
		owner.get("/language?to=" + language + "&back=%2Fadmin")
		for i, a := range []*answer{
			owner.acts("/admin/settings/import-settings", "json", pair("CERTIFICATE", "a certificate")),
			owner.acts("/admin/settings/import-settings", "json", pair("DSA", "")),
			owner.acts("/admin/keys/switch-pair?pair=own"),
		} {
			if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), want[i]) {
				t.Errorf("%s in %s = %d, want %q:\n%s", a.url, language, a.Code, want[i], a.form())
			}
		}
	}
}
