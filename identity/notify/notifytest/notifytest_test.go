package notifytest_test

import (
	"errors"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestNoticesAreTransactional: what was sent is what was committed, in order and once.
func TestNoticesAreTransactional(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	var box, other notifytest.Notices
	box.In(store)
	other.In(store)
	update := func(fail error, kinds ...notify.Kind) {
		t.Helper()
		err := store.Update(t.Context(), func(tx storage.Tx) error {
			for _, k := range kinds {
				if err := box.Send(tx, notify.Notice{Kind: k}); err != nil {
					return err
				}
			}
			return fail
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	undone := errors.New("undone")
	update(undone, notify.Welcome)
	update(nil, notify.Welcome, notify.Nothing, notify.PINReset)
	update(undone, notify.ResetLink)
	update(nil, notify.PasswordReset)
	got := box.Take()
	if len(got) != 3 || got[0].Kind != notify.Welcome || got[1].Kind != notify.PINReset || got[2].Kind != notify.PasswordReset {
		t.Errorf("Take = %+v, want what was committed, in order", got)
	}
	if again, others := box.Take(), other.Take(); len(again) != 0 || len(others) != 0 {
		t.Errorf("Take again = %+v, of another sender %+v, want nothing", again, others)
	}
}
