package badgerstore

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

func TestRecentIsBoundedAndKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newRecent()
	r.put(&engine.Entry{Key: "asked for", Stored: engine.EncodeRecord([]byte("asked for"), []byte("1"), time.Time{})})
	r.put(&engine.Entry{Key: "deleted"})
	if e := r.get([]byte("deleted")); e == nil || e.Stored != nil {
		t.Errorf("deleted: get = %v, want that it is known to be gone", e)
	}
	for i := range 100_000 {
		key := strconv.Itoa(i)
		r.put(&engine.Entry{Key: key, Stored: make([]byte, 300)})
		if r.get([]byte("asked for")) == nil {
			t.Fatalf("after %d others it is dropped, though it is asked for again and again", i)
		}
	}
	held := 0
	for _, m := range []map[string]*engine.Entry{r.young, r.old} {
		for _, e := range m {
			held += heldBy(e)
		}
	}
	if held > 2*recentSize+2*(300+perRecent) || held < recentSize {
		t.Errorf("%d bytes are held, want up to %d", held, 2*recentSize)
	}
	if r.get([]byte("0")) != nil || r.get([]byte("deleted")) != nil {
		t.Error("what nobody asks for is kept")
	}
}

func TestRecentForgetsWhatHasExpired(t *testing.T) {
	t.Parallel()
	r, now := newRecent(), time.Now()
	for key, expires := range map[string]time.Time{"gone": now.Add(-time.Millisecond), "here": now.Add(time.Hour), "always": {}} {
		r.put(&engine.Entry{Key: key, Stored: engine.EncodeRecord([]byte(key), nil, expires)})
		if known := r.get([]byte(key)) != nil; known != (key != "gone") {
			t.Errorf("%s: known = %t", key, known)
		}
	}
}

// What is written and never read again takes up no room.
func TestRecentKeepsNothingThatNobodyReads(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustPut(t, s, "token", "1")
	if err := s.Update(t.Context(), func(tx storage.Tx) error { _, err := tx.Get([]byte("token")); return err }); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "another", "1")
	if err := s.Update(t.Context(), func(storage.Tx) error { return nil }); err != nil { // waits for the writer
		t.Fatal(err)
	}
	if len(s.writer.known.young) != 1 {
		t.Errorf("%d records are kept, want that which was read alone", len(s.writer.known.young))
	}
}

// That a record is not there is kept once it is asked for again, until it is written. What is asked for once, such as
// the keys of new records, is not.
func TestRecentKnowsWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create := func(key string, want error) {
		t.Helper()
		err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Create([]byte(key), []byte("1"), time.Time{}) })
		if !errors.Is(err, want) {
			t.Errorf("Create(%s) = %v, want %v", key, err, want)
		}
	}
	has := func(want bool) {
		t.Helper()
		err := s.Update(t.Context(), func(tx storage.Tx) error { _, err := tx.Get([]byte("switch")); return err })
		if errors.Is(err, storage.ErrNotFound) == want || err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get = %v, want a record: %t", err, want)
		}
	}
	for i := range 10 {
		create(strconv.Itoa(i), nil)
		has(false)
	}
	s.Update(t.Context(), func(storage.Tx) error { return nil }) //nolint:errcheck // it waits for the writer
	if n := len(s.writer.known.young); n != 1 {
		t.Errorf("%d records are kept, want the one that is not there", n)
	}
	create("switch", nil)
	has(true)
	create("switch", storage.ErrExists)
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte("switch")) }); err != nil {
		t.Error(err)
	}
	has(false)
	create("switch", nil)
	has(true)
}

// What a closure reads is what the last commit wrote, whether it was read, written or removed before, and a caller that
// changes what it got changes nothing.
func TestRecentIsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reads := func(want string) {
		t.Helper()
		for range 2 {
			err := s.Update(t.Context(), func(tx storage.Tx) error {
				v, err := tx.Get([]byte("k"))
				if errors.Is(err, storage.ErrNotFound) {
					v, err = []byte("nothing"), nil
				}
				if string(v) != want {
					t.Errorf("Get = %q, want %q", v, want)
				}
				clear(v)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	reads("nothing")
	mustPut(t, s, "k", "one")
	reads("one")
	s.writer.known = newRecent()
	reads("one")
	mustPut(t, s, "k", "two")
	reads("two")
	failed := errors.New("given up")
	err = s.Update(t.Context(), func(tx storage.Tx) error {
		return errors.Join(tx.Put([]byte("k"), []byte("three"), time.Time{}), failed)
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	reads("two")
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte("k")) }); err != nil {
		t.Fatal(err)
	}
	reads("nothing")
}

// A scan of a table that is known to be empty finds what was written since, in the same batch or transaction too.
func TestRecentKnowsWhichTablesAreEmpty(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	count := func(prefix string, write ...string) (n int) {
		t.Helper()
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			n = 0
			for _, key := range write {
				if err := tx.Put([]byte(key), []byte("1"), time.Time{}); err != nil {
					return err
				}
			}
			for _, err := range tx.Scan(storage.Range{Prefix: []byte(prefix)}) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	mustPut(t, s, "visit_of/ann", "1")
	for range 2 * lookEvery {
		if n := count("visit/ann") + count("visit_of/ben"); n != 0 {
			t.Fatalf("%d records are found, want none", n)
		}
	}
	if !s.writer.known.vacant([]byte("visit/ben")) || s.writer.known.vacant([]byte("visit_of/ben")) || s.writer.known.vacant([]byte("visit")) {
		t.Errorf("empty: %v, want the table visit alone", s.writer.known.empty)
	}
	if n := count("visit/ann", "visit/ann1", "visit/ben1"); n != 1 {
		t.Errorf("%d records in the transaction that writes one, want it", n)
	}
	if n := count("visit/ann"); n != 1 {
		t.Errorf("%d records after one was written, want it", n)
	}
	if n := count("visit/"); n != 2 {
		t.Errorf("%d records in the whole table, want both", n)
	}
	for _, key := range []string{"visit/ann1", "visit/ben1"} {
		if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte(key)) }); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * lookEvery {
		if n := count("visit/"); n != 0 {
			t.Fatalf("%d records are found after all were removed", n)
		}
	}
	if !s.writer.known.vacant([]byte("visit/")) {
		t.Error("a table that is empty again is not known to be")
	}
	// The first write after that and a scan are in one batch.
	if n := count("visit/", "visit/cas"); n != 1 || count("visit/") != 1 {
		t.Errorf("%d records, want the new one", n)
	}
}

// A look at a whole table does not pass all marks of what was deleted there, since every write waits for it.
func TestLookAtATableIsBounded(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	remove := func(table string, records int) {
		t.Helper()
		for _, write := range []func(tx storage.Tx, key []byte) error{
			func(tx storage.Tx, key []byte) error { return tx.Put(key, []byte("1"), time.Time{}) },
			func(tx storage.Tx, key []byte) error { return tx.Delete(key) },
		} {
			err := s.Update(t.Context(), func(tx storage.Tx) error {
				for i := range records {
					if err := write(tx, fmt.Appendf(nil, "%s/%05d", table, i)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	remove("few", maxMarks/4)
	remove("many", maxMarks+1)
	err = s.Update(t.Context(), func(tx storage.Tx) error {
		for _, prefix := range []string{"few/x", "many/x"} {
			for rec, err := range tx.Scan(storage.Range{Prefix: []byte(prefix)}) {
				t.Errorf("%s is found, %v", rec.Key, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if known := s.writer.known; !known.vacant([]byte("few/x")) || known.vacant([]byte("many/x")) {
		t.Errorf("empty: %v, want the table with few marks alone", known.empty)
	}
}
