package clientstore_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// TestClientsAreListedOnce: a stored client stands once in the list, even when the engine reads a second time.
func TestClientsAreListedOnce(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	if _, err := h.Server().Clients().Add(t.Context(),
		client.Client{ID: "stored", Grants: []string{"client_credentials"}, Scopes: []string{"a"}}, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	list, err := h.Server().Clients().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, c := range list {
		if count[c.ID]++; count[c.ID] > 1 {
			t.Errorf("client %s is listed %d times, want once", c.ID, count[c.ID])
		}
	}
	if count["stored"] == 0 {
		t.Error("the stored client is not listed")
	}
}
