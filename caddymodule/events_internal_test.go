package caddymodule

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestTokenRetention: events of tokens that jobs get for themselves do not grow for ever unless someone says so.
func TestTokenRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		e    Events
		want audit.Retention
	}{
		{"nothing said", Events{}, audit.Retention{Brief: 90 * day}},
		{"longer for all", Events{Retention: "400d"}, audit.Retention{Kept: 400 * day, Brief: 90 * day}},
		{"shorter for all", Events{Retention: "30d"}, audit.Retention{Kept: 30 * day}},
		{"said", Events{Retention: "30d", TokenRetention: "7d"}, audit.Retention{Kept: 30 * day, Brief: 7 * day}},
		{"for ever", Events{Retention: "30d", TokenRetention: "forever"}, audit.Retention{Kept: 30 * day, Brief: audit.Forever}},
	} {
		r := caddyfileutil.NewResolver(nil)
		if got := c.e.retention(r); got != c.want || r.Err() != nil {
			t.Errorf("%s: retention = %+v, %v, want %+v", c.name, got, r.Err(), c.want)
		}
	}
	r := caddyfileutil.NewResolver(nil)
	if (&Events{TokenRetention: "often"}).retention(r); r.Err() == nil {
		t.Error("token_retention often is taken")
	}
}
