package spelling_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

func TestWord(t *testing.T) {
	t.Parallel()
	known := []string{"openid", "profile", "email", "orders.read", "staff", "redirect_uris", "id", "sign_up_enabled"}
	for word, want := range map[string]string{
		"opnid": "openid", "emial": "email", "order.raed": "orders.read", "stff": "staff", "Staff": "staff", "redirect_uri": "redirect_uris",
		"signup_enabled": "sign_up_enabled", "openid": "", "": "", "ix": "", "customers": "", "read": "", "stark": "",
	} {
		if got := spelling.Word(word, known); got != want {
			t.Errorf("Word(%q) = %q, want %q", word, got, want)
		}
	}
}
