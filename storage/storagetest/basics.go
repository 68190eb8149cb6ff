package storagetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

func (s suite) notFound(t *testing.T) {
	st := s.open(t)
	view(t, st, func(tx storage.Tx) error {
		v, err := tx.Get([]byte("a"))
		wantErr(t, "View: Get(a)", err, storage.ErrNotFound)
		if v != nil {
			t.Errorf("Get(a) = %q, want nil", v)
		}
		_, err = tx.Get(bytes.Repeat([]byte("k"), storage.MaxKey+1))
		wantErr(t, "Get of a key that is too long", err, storage.ErrNotFound)
		return nil
	})
	update(t, st, func(tx storage.Tx) error {
		_, err := tx.Get([]byte("a"))
		wantErr(t, "Update: Get(a)", err, storage.ErrNotFound)
		if err := tx.Delete([]byte("a")); err != nil {
			t.Errorf("Delete of a record that is not there = %v, want nil", err)
		}
		return tx.Put([]byte("b"), []byte("1"), never) // the transaction goes on
	})
	wantValue(t, st, "b", "1")
	wantValue(t, st, "a", "<none>")
}

func (s suite) createTwice(t *testing.T) {
	st := s.open(t)
	update(t, st, func(tx storage.Tx) error { return tx.Create([]byte("a"), []byte("1"), never) })
	update(t, st, func(tx storage.Tx) error {
		wantErr(t, "Create of a durable record", tx.Create([]byte("a"), []byte("2"), never), storage.ErrExists)
		if err := tx.Create([]byte("b"), []byte("1"), never); err != nil {
			t.Errorf("Create after ErrExists = %v, want nil", err)
		}
		wantErr(t, "Create twice in one transaction", tx.Create([]byte("b"), []byte("2"), never), storage.ErrExists)
		return nil
	})
	err := st.Update(t.Context(), func(tx storage.Tx) error { return tx.Create([]byte("a"), []byte("3"), never) })
	wantErr(t, "Update", err, storage.ErrExists)
	wantValue(t, st, "a", "1")
	wantValue(t, st, "b", "1")
	update(t, st, func(tx storage.Tx) error {
		if err := tx.Delete([]byte("a")); err != nil {
			return err
		}
		return tx.Create([]byte("a"), []byte("4"), never)
	})
	wantValue(t, st, "a", "4")
}

func (s suite) putAndDelete(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	put(t, st, "a", "2")
	wantValue(t, st, "a", "2")
	update(t, st, func(tx storage.Tx) error { return tx.Delete([]byte("a")) })
	wantValue(t, st, "a", "<none>")
	put(t, st, "a", "")
	wantValue(t, st, "a", "")
	update(t, st, func(tx storage.Tx) error {
		for _, v := range []string{"3", "4", "5"} {
			if err := tx.Put([]byte("a"), []byte(v), never); err != nil {
				return err
			}
		}
		return nil
	})
	wantValue(t, st, "a", "5")
	update(t, st, func(tx storage.Tx) error {
		if err := tx.Put([]byte("b"), nil, never); err != nil {
			return err
		}
		return tx.Delete([]byte("b"))
	})
	wantValue(t, st, "b", "<none>")
}

func (s suite) getMany(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	put(t, st, "b", "")
	check := func(tx storage.Tx) error {
		got, err := tx.GetMany([]byte("b"), []byte("x"), []byte("a"), []byte("a"))
		if err != nil {
			return err
		}
		if len(got) != 4 || got[0] == nil || len(got[0]) != 0 || got[1] != nil || string(got[2]) != "1" || string(got[3]) != "1" {
			t.Errorf("GetMany(b, x, a, a) = %q, want an empty value, nil, 1, 1", got)
		}
		got, err = tx.GetMany()
		if len(got) != 0 {
			t.Errorf("GetMany() = %q, want none", got)
		}
		return err
	}
	view(t, st, check)
	update(t, st, check)
}

// oddKeys are keys that an engine might mistake for internal ones.
var oddKeys = []string{
	"", "\x00", "\x00\x00", "\xff", "\xff\xff", "\xff\xff\x00", "!badger!", "!badger!txn", "!", "m", "mseq", "r", "s", "\x80\xfe",
	string(bytes.Repeat([]byte{0xff}, storage.MaxKey)), string(bytes.Repeat([]byte{0}, storage.MaxKey)),
}

func (s suite) anyKey(t *testing.T) {
	st := s.open(t)
	for _, k := range oddKeys {
		put(t, st, k, "value of "+k)
	}
	for _, k := range oddKeys {
		wantValue(t, st, k, "value of "+k)
	}
	if got := all(t, st); len(got) != len(oddKeys) {
		t.Errorf("Scan of everything yields %d records, want %d", len(got), len(oddKeys))
	}
}

func (s suite) copies(t *testing.T) {
	st := s.open(t)
	update(t, st, func(tx storage.Tx) error {
		if err := tx.Put([]byte("a"), []byte("one"), never); err != nil {
			return err
		}
		v, err := tx.Get([]byte("a"))
		if err != nil {
			return err
		}
		v[0] = 'X'
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			rec.Key[0], rec.Value[0] = 'X', 'X'
		}
		return nil
	})
	wantValue(t, st, "a", "one")
	var kept []byte
	view(t, st, func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			rec.Key[0], rec.Value[0] = 'X', 'X'
		}
		v, err := tx.Get([]byte("a"))
		kept = v
		return err
	})
	put(t, st, "a", "two")
	if string(kept) != "one" {
		t.Errorf("value kept from a view = %q, want %q", kept, "one")
	}
}

func (s suite) readYourWrites(t *testing.T) {
	st := s.open(t)
	for _, k := range []string{"a", "b", "c"} {
		put(t, st, k, "old")
	}
	update(t, st, func(tx storage.Tx) error {
		if err := errors.Join(
			tx.Put([]byte("b"), []byte("new"), never),
			tx.Delete([]byte("c")),
			tx.Create([]byte("bb"), []byte("new"), never),
			tx.Put([]byte("d"), []byte("gone"), never),
			tx.Delete([]byte("d")),
		); err != nil {
			return err
		}
		if v, err := tx.Get([]byte("b")); err != nil || string(v) != "new" {
			t.Errorf("Get(b) = %q, %v, want new", v, err)
		}
		for _, k := range []string{"c", "d"} {
			_, err := tx.Get([]byte(k))
			wantErr(t, "Get("+k+")", err, storage.ErrNotFound)
		}
		got, err := list(tx, storage.Range{})
		if want := []string{"a=old", "b=new", "bb=new"}; !slices.Equal(got, want) {
			t.Errorf("Scan = %q, want %q", got, want)
		}
		down, err2 := list(tx, storage.Range{Descending: true, Limit: 2})
		if want := []string{"bb=new", "b=new"}; !slices.Equal(down, want) {
			t.Errorf("Scan descending = %q, want %q", down, want)
		}
		return errors.Join(err, err2)
	})
}

func (s suite) rollback(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	put(t, st, "b", "1")
	mine := errors.New("mine")
	err := st.Update(t.Context(), func(tx storage.Tx) error {
		return errors.Join(tx.Put([]byte("a"), []byte("2"), never), tx.Delete([]byte("b")), tx.Put([]byte("c"), []byte("2"), never), mine)
	})
	wantErr(t, "Update", err, mine)
	wantValue(t, st, "a", "1")
	wantValue(t, st, "b", "1")
	wantValue(t, st, "c", "<none>")
	wantErr(t, "View", st.View(t.Context(), func(storage.Tx) error { return mine }), mine)
}

func (s suite) viewCannotWrite(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	view(t, st, func(tx storage.Tx) error {
		wantErr(t, "Put", tx.Put([]byte("a"), []byte("2"), never), storage.ErrReadOnly)
		wantErr(t, "Create", tx.Create([]byte("b"), []byte("2"), never), storage.ErrReadOnly)
		wantErr(t, "Delete", tx.Delete([]byte("a")), storage.ErrReadOnly)
		wantErr(t, "Put of too much", tx.Put([]byte("a"), make([]byte, storage.MaxValue+1), never), storage.ErrReadOnly)
		return nil
	})
	wantValue(t, st, "a", "1")
	wantValue(t, st, "b", "<none>")
}

func (s suite) ended(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	var kept [2]storage.Tx
	view(t, st, func(tx storage.Tx) error { kept[0] = tx; return nil })
	update(t, st, func(tx storage.Tx) error { kept[1] = tx; return nil })
	for _, tx := range kept {
		_, err := tx.Get([]byte("a"))
		wantErr(t, "Get after the end", err, storage.ErrUnavailable)
		if err := tx.Put([]byte("a"), []byte("2"), never); err == nil {
			t.Error("Put after the end = nil, want an error")
		}
		_, err = list(tx, storage.Range{})
		wantErr(t, "Scan after the end", err, storage.ErrUnavailable)
	}
	wantValue(t, st, "a", "1")
}

func (s suite) check(t *testing.T) {
	st := s.open(t)
	c, ok := st.(storage.Checker)
	if !ok {
		return // the engine cannot tell
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
	if err := st.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	wantErr(t, "Check of a closed store", c.Check(context.Background()), storage.ErrUnavailable)
}
