package caddymodule

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// TestTokenRetention: events of tokens that jobs get for themselves do not grow for ever unless somebody says so.
func TestTokenRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		e    Events
		want event.Retention
	}{
		{"nothing said", Events{}, event.Retention{Brief: 90 * day}},
		{"longer for all", Events{Retention: "400d"}, event.Retention{Kept: 400 * day, Brief: 90 * day}},
		{"shorter for all", Events{Retention: "30d"}, event.Retention{Kept: 30 * day}},
		{"said", Events{Retention: "30d", TokenRetention: "7d"}, event.Retention{Kept: 30 * day, Brief: 7 * day}},
		{"for ever", Events{Retention: "30d", TokenRetention: "forever"}, event.Retention{Kept: 30 * day, Brief: event.Forever}},
	} {
		r := options.NewResolver(nil)
		if got := c.e.retention(r); got != c.want || r.Err() != nil {
			t.Errorf("%s: retention = %+v, %v, want %+v", c.name, got, r.Err(), c.want)
		}
	}
	r := options.NewResolver(nil)
	if (&Events{TokenRetention: "often"}).retention(r); r.Err() == nil {
		t.Error("token_retention often is taken")
	}
}
