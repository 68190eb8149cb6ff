package consent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestManyLargeConsentsFitIntoARecord: a person who has allowed a client many long details can allow the next ones.
func TestManyLargeConsentsFitIntoARecord(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range 120 {
		w := consent.Wish{
			Use: fmt.Sprint(i), Scope: []string{"openid"},
			Details: fmt.Sprintf(`[{"identifier":"%s%d","type":"a"}]`, strings.Repeat("x", 8<<10), i),
		}
		allowed := false
		err := store.Update(t.Context(), func(tx storage.Tx) (err error) {
			if err := consent.Remember(tx, "p", "c", w, time.Unix(1, 0)); err != nil {
				return err
			}
			allowed, err = consent.Allows(tx, "p", "c", w)
			return err
		})
		if err != nil || !allowed {
			t.Fatalf("consent %d: %v, %v", i, allowed, err)
		}
	}
}
