package event_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var created = event.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"}

func TestAppend(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rec := &event.Recorder{Random: rand.Reader, Now: func() time.Time { return now }}
	var ids []string
	for _, person := range []string{"p1", "p1", "p2", ""} {
		e, err := rec.New(created, event.Origin{ClientIP: "192.0.2.1", UserAgent: "UA\r\nforged: line"})
		if err != nil {
			t.Fatal(err)
		}
		e.PersonID, e.Actor = person, "admin"
		if err := store.Update(t.Context(), func(tx storage.Tx) error { return rec.Append(tx, e) }); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
		now = now.Add(time.Second)
	}
	err = store.View(t.Context(), func(tx storage.Tx) error {
		var got []string
		for e, err := range event.OfPerson(tx, "p1") {
			if err != nil {
				return err
			}
			got = append(got, e.ID)
			if e.UserAgent != "UA  forged: line" {
				t.Errorf("user agent = %q, want it on one line", e.UserAgent)
			}
		}
		if strings.Join(got, " ") != ids[1]+" "+ids[0] {
			t.Errorf("OfPerson = %v, want the two of p1, newest first", got)
		}
		if n := count(t, tx); n != 4 {
			t.Errorf("All yields %d, want 4", n)
		}
		n := 0
		for _, err := range event.OfActor(tx, "admin") {
			if err != nil {
				return err
			}
			n++
		}
		if n != 3 {
			t.Errorf("OfActor yields %d, want the 3 that happened to a person", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, tx storage.Tx) (n int) {
	t.Helper()
	for _, err := range event.All(tx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestNothingIsKeptOfAFailedOperation(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	rec := &event.Recorder{Random: rand.Reader, Now: time.Now}
	e, err := rec.New(created, event.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	boom := storage.ErrExists
	if err := store.Update(t.Context(), func(tx storage.Tx) error {
		if err := rec.Append(tx, e); err != nil {
			return err
		}
		return boom
	}); err == nil {
		t.Fatal("Update returned nil")
	}
	if err := store.View(t.Context(), func(tx storage.Tx) error {
		if n := count(t, tx); n != 0 {
			t.Errorf("%d events of an operation that failed", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\r\nb\x1b[31m\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		out := event.Clean(s)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\r\n\x00\x1b\x7f\u2028\u2029") || utf8.RuneCountInString(out) > 512 {
			t.Errorf("Clean(%q) = %q", s, out)
		}
	})
}
