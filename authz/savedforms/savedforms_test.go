package savedforms_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/savedforms"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

type nobody struct{}

func (nobody) Former(storage.Tx, string, string) (string, error) { return "", nil }

const site = "https://wiki.example.com"

// world is a store with forms and a clock.
type world struct {
	*savedforms.Forms
	store storage.Store
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: store, now: time.Now()}
	w.Forms = savedforms.New(savedforms.Deps{
		Store: store, Keyring: ring, Sites: nobody{},
		Now: func() time.Time { return w.now }, Random: rand.Reader,
	})
	return w
}

func (w *world) keep(t *testing.T, person string, size int) (string, error) {
	t.Helper()
	return w.Keep(t.Context(), site, "browser of "+person, person,
		savedforms.Form{Target: "/save", ContentType: "text/x", Body: bytes.Repeat([]byte("s3cr"), size/4)})
}

// records returns how many forms a store has, and fails the test if one can be read there.
func (w *world) records(t *testing.T) (n int) {
	t.Helper()
	err := w.store.View(t.Context(), func(tx storage.Tx) error {
		n = 0
		for rec, err := range tx.Scan(storage.Range{Prefix: []byte("authz_parked_")}) {
			if err != nil {
				return err
			}
			if n++; bytes.Contains(rec.Value, []byte("s3crs3crs3cr")) || bytes.Contains(rec.Value, []byte("browser of")) ||
				bytes.Contains(rec.Value, []byte("/save")) {
				t.Errorf("a record can be read by who has the store: %.200q", rec.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n / 2
}

// TestTakenOnce: of many presses of the button at the same time, one sends the form.
func TestTakenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, err := w.keep(t, "ada", 64)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.records(t); n != 1 {
		t.Errorf("%d forms are stored, want 1", n)
	}
	t.Run("attack 346: many at the same time", func(t *testing.T) { takeAll(t, w, id) })
}

func takeAll(t *testing.T, w *world, id string) {
	t.Helper()
	var sent, gone atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			form, err := w.Take(t.Context(), savedforms.Key{Origin: site, Browser: "browser of ada", ID: id}, "ada", "/save")
			switch {
			case err == nil && len(form.Body) == 64:
				sent.Add(1)
			case errors.Is(err, savedforms.ErrGone):
				gone.Add(1)
			default:
				t.Errorf("Take = %v", err)
			}
		})
	}
	all.Wait()
	if sent.Load() != 1 || gone.Load() != 19 || w.records(t) != 0 {
		t.Errorf("%d presses got the form and %d were refused, want 1 and 19", sent.Load(), gone.Load())
	}
}

// TestStorageIsNotFilled: neither one person nor many can keep more than there is room for, and what is old makes room.
func TestStorageIsNotFilled(t *testing.T) {
	t.Parallel()
	t.Run("attack 342: one person, and many", fill)
}

func fill(t *testing.T) {
	w := newWorld(t)
	for range 50 {
		if _, err := w.keep(t, "ada", savedforms.MaxBody); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	if n := w.records(t); n != 5 {
		t.Errorf("one person keeps %d forms, want 5", n)
	}
	full := 0
	for i := range 150 {
		_, err := w.keep(t, fmt.Sprint("person ", i), savedforms.MaxBody)
		if errors.Is(err, savedforms.ErrFull) {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := w.records(t); n != 128 || full != 27 {
		t.Errorf("the site keeps %d forms of 256 KiB and refused %d, want 128 and 27", n, full)
	}
	w.now = w.now.Add(10*time.Minute + time.Second)
	if _, err := w.keep(t, "ben", 64); err != nil || w.records(t) != 1 {
		t.Errorf("after ten minutes Keep = %v, with %d forms, want the new one alone", err, w.records(t))
	}
	if _, err := w.keep(t, "cy", savedforms.MaxBody+4); err == nil {
		t.Error("a body that is too large is kept")
	}
}
