package finding_test

import (
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
)

// TestOrder adds findings in two orders: what is read does not depend on which app Caddy provisioned first.
func TestOrder(t *testing.T) {
	t.Parallel()
	want := []finding.Finding{
		{Severity: finding.Error, Place: "Caddyfile:100", Reason: "refused"},
		{Severity: finding.Warning, Place: "Caddyfile:9", Reason: "a"},
		{Severity: finding.Warning, Place: "Caddyfile:9", Reason: "b"},
		{Severity: finding.Warning, Place: "Caddyfile:10", Reason: "a"},
		{Severity: finding.Warning, Place: "sites/wiki:1", Reason: "a"},
		{Severity: finding.Warning, Reason: "about the machine"},
	}
	for name, order := range map[string]func(int) int{
		"as they stand": func(i int) int { return i },
		"from the end":  func(i int) int { return len(want) - 1 - i },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l finding.List
			for i := range want {
				l.Add(want[order(i)])
			}
			if got := l.All(); !slices.Equal(got, want) {
				t.Errorf("All() = %v, want %v", got, want)
			}
		})
	}
}
