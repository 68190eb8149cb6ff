package storagetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

func (s suite) tooLarge(t *testing.T) {
	st := s.open(t)
	long := bytes.Repeat([]byte("k"), storage.MaxKey+1)
	for name, fn := range map[string]func(storage.Tx) error{
		"Put of a value":    func(tx storage.Tx) error { return tx.Put([]byte("big"), make([]byte, storage.MaxValue+1), never) },
		"Create of a value": func(tx storage.Tx) error { return tx.Create([]byte("big"), make([]byte, storage.MaxValue+1), never) },
		"Put of a key":      func(tx storage.Tx) error { return tx.Put(long, nil, never) },
		"Create of a key":   func(tx storage.Tx) error { return tx.Create(long, nil, never) },
		"Delete of a key":   func(tx storage.Tx) error { return tx.Delete(long) },
	} {
		var inside error
		err := st.Update(t.Context(), func(tx storage.Tx) error {
			if err := tx.Put([]byte("small"), []byte("1"), never); err != nil {
				return err
			}
			inside = fn(tx)
			return inside
		})
		wantErr(t, name, inside, storage.ErrTooLarge)
		wantErr(t, "Update after "+name, err, storage.ErrTooLarge)
		err = st.Update(t.Context(), func(tx storage.Tx) error {
			if err := tx.Put([]byte("small"), []byte("1"), never); err != nil {
				return err
			}
			_ = fn(tx)
			return nil
		})
		wantErr(t, "Update that overlooks the error of "+name, err, storage.ErrTooLarge)
	}
	wantValue(t, st, "small", "<none>")
}

func (s suite) largestValues(t *testing.T) {
	st := s.open(t)
	key := string(bytes.Repeat([]byte("k"), storage.MaxKey))
	for i := range 4 {
		value := string(bytes.Repeat([]byte{byte('0' + i)}, storage.MaxValue))
		put(t, st, key, value)
		wantValue(t, st, key, value)
	}
	update(t, st, func(tx storage.Tx) error {
		v, err := tx.Get([]byte(key))
		if err != nil {
			return err
		}
		return tx.Put([]byte("other"), v[:storage.MaxValue/2], never)
	})
	if got := get(t, st, "other"); len(got) != storage.MaxValue/2 {
		t.Errorf("length of other = %d, want %d", len(got), storage.MaxValue/2)
	}
}

func (s suite) tooLargeInAll(t *testing.T) {
	st := s.open(t)
	const values = 4096 // 2 GiB
	value := make([]byte, storage.MaxValue)
	err := st.Update(t.Context(), func(tx storage.Tx) error {
		for i := range values {
			if err := tx.Put(fmt.Appendf(nil, "k%d", i), value, never); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, "Update with 2 GiB", err, storage.ErrTooLarge)
	if got := all(t, st); len(got) != 0 {
		t.Errorf("%d records are left of a transaction that was too large, want 0", len(got))
	}
	put(t, st, "a", "1")
	wantValue(t, st, "a", "1")
}
