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
	store := open(t)
	for i := range 120 {
		use := fmt.Sprint(i)
		if i%2 == 1 {
			use = ""
		}
		w := consent.Wish{
			Use: use, Scope: []string{"openid"},
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

// TestNothingIsAWishToo: a token without scopes and audience opens the sites that accept any, so it is asked for once.
func TestNothingIsAWishToo(t *testing.T) {
	t.Parallel()
	store := open(t)
	for _, tt := range []struct {
		name    string
		before  *consent.Wish // that has been allowed meanwhile
		allowed bool
	}{
		{"nothing was allowed", nil, false},
		{"a resource was", &consent.Wish{Use: consent.ForResources([]string{"https://wiki.example.com"})}, false},
		{"the same was", &consent.Wish{}, true},
	} {
		err := store.Update(t.Context(), func(tx storage.Tx) error {
			if tt.before != nil {
				if err := consent.Remember(tx, "p", "c", *tt.before, time.Unix(1, 0)); err != nil {
					return err
				}
			}
			got, err := consent.Allows(tx, "p", "c", consent.Wish{})
			if got != tt.allowed {
				t.Errorf("%s: Allows = %t, want %t", tt.name, got, tt.allowed)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T) storage.Store {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
