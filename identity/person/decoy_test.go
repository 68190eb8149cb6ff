package person_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestDecoys: while imported hashes of another system exist, the cost of an attempt does not tell which usernames
// exist.
func TestDecoys(t *testing.T) {
	t.Parallel()
	t.Run("attack 218: a name that is nobody's costs what an imported hash costs, or what one of ours does", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		cost := func(username string) int64 {
			t.Helper()
			b := h.Browser()
			form := b.Get("/next")
			before := h.Hasher.Computed()
			if a := b.Post(form, "username", username, "password", "not the password"); a.Code != 422 {
				t.Fatalf("%s: %d, want 422", username, a.Code)
			}
			return h.Hasher.Computed() - before
		}
		const names = 40
		nobody := func(i int) string { return fmt.Sprintf("nobody-%d@example.com", i) }
		for i := range 5 {
			if got := cost(nobody(i)); got != 1 {
				t.Fatalf("nobody, and nothing imported: %d hashes, want 1", got)
			}
		}
		list := []ldapmigration.Person{{NewPerson: person.NewPerson{
			Username:     "old@example.com",
			PasswordHash: "$pbkdf2-sha256$6400$0ZrzXitFSGltTQnBWOsdeA$xS3upr62e29h9/zIrz.USU3saLoax9c4c5xTWMHer.Y",
		}}}
		if _, err := h.Migration.Import(t.Context(), list, ldapmigration.How{}, identitytest.Admin); err != nil {
			t.Fatal(err)
		}
		imported := cost("old@example.com")
		if imported == 1 {
			t.Fatalf("the imported hash costs %d, so this test shows nothing", imported)
		}
		like := map[int]bool{}
		for i := range names {
			got := cost(nobody(i))
			if got != 1 && got != imported {
				t.Fatalf("%s costs %d, want 1 or %d", nobody(i), got, imported)
			}
			like[i] = got == imported
		}
		n := 0
		for _, is := range like {
			if is {
				n++
			}
		}
		if n < names/5 || n > names*4/5 {
			t.Errorf("%d of %d names that are nobody's cost as much as the imported hash, want about half", n, names)
		}
		// Each name costs the same in upper case and after a restart.
		h.Start()
		for i := range names {
			if got := cost(strings.ToUpper(nobody(i))); (got == imported) != like[i] {
				t.Errorf("%s costs %d now", nobody(i), got)
			}
		}
		if got := cost(identitytest.Demo); got != 1 {
			t.Errorf("one of ours costs %d, want 1", got)
		}
		h.CheckInvariants()
	})
}
