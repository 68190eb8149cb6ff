package console

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/tally"
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
	if file.Code != http.StatusOK || !strings.Contains(file.Header().Get("Content-Disposition"), "attachment") || !strings.Contains(file.Body.String(), `"kid": "`+before) || strings.Contains(file.Body.String(), `"d"`) {
		t.Errorf("the public part = %d %s", file.Code, file.Body)
	}
	token, err := h.keys.Sign("ES256", keys.TypeIDToken, map[string]string{})
	h.must(err)
	if a := owner.acts("/admin/keys/retire-key?key=" + before); a.Code != http.StatusOK || !strings.Contains(a.form(), `role="status"`) || strings.Contains(a.form(), before) {
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

// TestAPIClientsInTheConsole: what may call the APIs, when it did last and from where.
func TestAPIClientsInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	counts := tally.NewBuffer(h.store, h.clock.Now, rand.Reader, zap.NewNop())
	counts.Called("billing", "203.0.113.9")
	counts.Flush(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); tally.New(h.store, h.clock.Now, zap.NewNop()).Run(ctx) }()
	defer func() { stop(); <-done }()
	a := b.get("/admin/api-clients")
	for !strings.Contains(a.form(), "203.0.113.9") && t.Context().Err() == nil {
		a = b.get("/admin/api-clients")
	}
	h.clock.Advance(time.Minute)
	for _, want := range []string{"billing", "events, introspection", "Caddyfile:40"} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the page lacks %q:\n%s", want, a.form())
		}
	}
}
