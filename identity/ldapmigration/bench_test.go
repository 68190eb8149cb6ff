package ldapmigration_test

import (
	"fmt"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
)

// BenchmarkImport measures importing one person, in the batches that the command sends.
func BenchmarkImport(b *testing.B) {
	h := identitytest.New(b)
	part := make([]ldapmigration.Person, 0, 200)
	n := 0
	for b.Loop() {
		n++
		p := imported(fmt.Sprintf("user%d@example.com", n), hash("{SSHA}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA=="))
		p.GivenName, p.FamilyName, p.Groups = "Given", "Family", []string{"staff"}
		if part = append(part, p); len(part) < cap(part) {
			continue
		}
		for _, r := range imports(h, false, part...) {
			if r.Status != ldapmigration.Created {
				b.Fatalf("Import = %+v, want created", r)
			}
		}
		part = part[:0]
	}
}
