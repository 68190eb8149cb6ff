package client_test

import (
	"fmt"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
)

// TestNamesThatTurn: no client has a name that changes how the sentence around it reads. What the Caddyfile, the
// commands, the console and imports make goes through Validate.
func TestNamesThatTurn(t *testing.T) {
	t.Parallel()
	named := func(name string) error {
		c := &client.Client{
			ID: "app", Name: name, Public: true, RedirectURIs: []string{"https://app.example.com/cb"},
			Grants: []string{"authorization_code"}, Scopes: []string{"openid"},
		}
		return c.Validate()
	}
	for _, c := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		t.Run(fmt.Sprintf("attack 6793: U+%04X", c), func(t *testing.T) {
			t.Parallel()
			if err := named("Mail " + string(c) + "knaB"); err == nil {
				t.Errorf("Validate of a name with U+%04X = nil, want an error", c)
			}
		})
	}
	if err := named("\u05d3\u05d5\u05d0\u05e8"); err != nil {
		t.Errorf("Validate of a name from right to left = %v, want nil", err)
	}
}
