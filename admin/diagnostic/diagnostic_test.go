package diagnostic_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
)

// TestOrder adds findings in two orders: what is read does not depend on which app Caddy provisioned first.
func TestOrder(t *testing.T) {
	t.Parallel()
	want := []diagnostic.Finding{
		{Severity: diagnostic.Error, Place: "Caddyfile:100", Reason: "refused"},
		{Severity: diagnostic.Warning, Place: "Caddyfile:9", Reason: "a"},
		{Severity: diagnostic.Warning, Place: "Caddyfile:9", Reason: "b"},
		{Severity: diagnostic.Warning, Place: "Caddyfile:10", Reason: "a"},
		{Severity: diagnostic.Warning, Place: "sites/wiki:1", Reason: "a"},
		{Severity: diagnostic.Warning, Reason: "about the machine"},
	}
	for name, order := range map[string]func(int) int{
		"as they stand": func(i int) int { return i },
		"from the end":  func(i int) int { return len(want) - 1 - i },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l diagnostic.List
			for i := range want {
				l.Add(want[order(i)])
			}
			if got := l.All(); !slices.Equal(got, want) {
				t.Errorf("All() = %v, want %v", got, want)
			}
		})
	}
}

// TestOnce adds a finding as it is found, and as it is read from JSON, which does not say what it is about.
func TestOnce(t *testing.T) {
	t.Parallel()
	f := diagnostic.Finding{Severity: diagnostic.Warning, Place: "Caddyfile:9", Reason: "a", About: "client wiki: scopes"}
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var read diagnostic.Finding
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	list := new(diagnostic.List)
	if !list.Add(f) || list.Add(read) || len(list.All()) != 1 {
		t.Errorf("the same finding twice is %+v, want it once", list.All())
	}
	if read.Place = "Caddyfile:10"; !list.Add(read) {
		t.Error("a finding of another place is not added")
	}
}
