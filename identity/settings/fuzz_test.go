package settings_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// FuzzUnits: any body is refused with a 4xx or accepted; an accepted one is read back the same, and changes nothing
// when it is written again.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{
		`{}`, full, `{"features":{"login_enabled":false}}`, `{"messages":{"nl":{"a":"b"}}}`,
		`{"login_methods":{"login_methods":[{"id":"identity","type":"USERNAME_AND_PASSWORD"}]}}`,
		`{"redirects":{"url_whitelist":[{"url":"https://a.example"}]}}`, `{"organisations":[{"service_providers":{"a":{}}}]}`,
		`{"step_up":null}`, `{"password_policy":{}}`,
		`{"key_pairs":[]}`, `{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"a|b"}}}`, `[`,
		`{"custom_messages":{"locales":{"nl":{}}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := newWorld(t)
		if _, err := w.service.Import(settings.WithRights(t.Context(), settings.Owner), raw, audit.Actor{ID: "fuzz"}); err != nil {
			e := new(jsonapi.Error)
			if !errors.As(err, &e) || e.Status < 400 || e.Status > 499 {
				t.Fatalf("Import(%q) = %v, want a refusal", raw, err)
			}
			return
		}
		first, err := w.service.Export(t.Context())
		if err != nil || !json.Valid(first) {
			t.Fatalf("Export after %q = %q, %v", raw, first, err)
		}
		changed, err := w.service.Import(settings.WithRights(t.Context(), settings.Owner), first, audit.Actor{ID: "fuzz"})
		if err != nil || len(changed) > 0 {
			t.Fatalf("Import of what was exported after %q = %v, %v, want no change", raw, changed, err)
		}
	})
}

// BenchmarkUnits reads the unchanged configuration in an open transaction.
func BenchmarkUnits(b *testing.B) {
	w := newWorld(b)
	w.must(204, "POST", "/api/v2/config", full)
	err := w.store.View(b.Context(), func(tx storage.Tx) error {
		for b.Loop() {
			if _, err := w.service.Units(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkChange: a small change of a large configuration.
func BenchmarkChange(b *testing.B) {
	w := newWorld(b)
	w.must(204, "POST", "/api/v2/config", full)
	w.must(204, "PUT", "/api/v2/config/custom-messages/nl/batch", members(1500))
	for i := 0; b.Loop(); i++ {
		body := `{"login_enabled":false}`
		if i%2 == 1 {
			body = `{"login_enabled":true}`
		}
		w.must(204, "POST", "/api/v2/config/features", body)
	}
}
