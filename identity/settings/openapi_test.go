package settings

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
	"github.com/gatehouse-id/gatehouse/internal/openapi/openapitest"
)

// TestOperationsAreTheRoutes: each route is described, and nothing else is.
func TestOperationsAreTheRoutes(t *testing.T) {
	t.Parallel()
	routes := (&API{s: &Service{keyPairs: &keystore.Service{}}}).routes()
	operations := Operations()
	if len(routes) != len(operations) {
		t.Errorf("%d routes and %d descriptions", len(routes), len(operations))
	}
	described := map[string]bool{}
	for _, o := range operations {
		described[o.Method+" "+o.Path] = true
	}
	for _, r := range routes {
		if !described[r.Method+" "+r.Path] {
			t.Errorf("%s %s is not described", r.Method, r.Path)
		}
	}
	doc, err := openapi.Document("Gatehouse", "1.0.0", "https://auth.example.com", operations)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range openapitest.Check(doc) {
		t.Error(wrong)
	}
}
