package newest_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/newest"
)

// TestOf: configurations come and go in any order, and the newest that is left decides.
func TestOf(t *testing.T) {
	t.Parallel()
	var of newest.Of[string]
	want := func(want string) {
		t.Helper()
		if got := of.Load(); got != want {
			t.Errorf("%q is in effect, want %q", got, want)
		}
	}
	want("")
	first := of.Use("first")
	failed := of.Use("failed")
	want("failed")
	failed()
	want("first")
	second := of.Use("second")
	first()
	want("second")
	second()
	second()
	want("second") // nothing is newer
	third := of.Use("third")
	of.Use("fourth")()
	want("third")
	third()
	want("third")
}
