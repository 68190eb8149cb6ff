package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-id/gatehouse/internal/modeltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// model drives a store and a plain map with the same random transactions and compares every answer.
func (s suite) model(t *testing.T) {
	st := s.open(t)
	key := rapid.Custom(func(r *rapid.T) []byte {
		return []byte(rapid.StringOfN(rapid.RuneFrom([]rune{0, 'a', 'b', 'ÿ'}), 0, 3, -1).Draw(r, "key"))
	})
	modeltest.Check(t, func(r *rapid.T) {
		want := all(t, st) // one store for all runs: each continues where the last one stopped
		for range rapid.IntRange(1, 8).Draw(r, "transactions") {
			fails := rapid.Bool().Draw(r, "fails")
			after := maps.Clone(want)
			mine := errors.New("mine")
			err := st.Update(context.Background(), func(tx storage.Tx) error {
				after = maps.Clone(want)
				for range rapid.IntRange(1, 12).Draw(r, "steps") {
					if err := step(r, tx, after, key.Draw(r, "key")); err != nil {
						return err
					}
				}
				if fails {
					return mine
				}
				return nil
			})
			switch {
			case fails && !errors.Is(err, mine):
				r.Fatalf("Update = %v, want %v", err, mine)
			case !fails && err != nil:
				r.Fatalf("Update = %v, want nil", err)
			case !fails:
				want = after
			}
			if err := st.View(context.Background(), func(tx storage.Tx) error { return compare(r, tx, want) }); err != nil {
				r.Fatalf("View = %v", err)
			}
		}
	})
}

// step does one thing to both and compares the results.
func step(r *rapid.T, tx storage.Tx, m map[string]string, key []byte) error {
	value := rapid.StringN(0, 5, -1).Draw(r, "value")
	old, there := m[string(key)]
	switch op := rapid.SampledFrom([]string{"get", "put", "create", "delete", "scan", "scan and write"}).Draw(r, "op"); op {
	case "get":
		v, err := tx.Get(key)
		if there != (err == nil) || !there && !errors.Is(err, storage.ErrNotFound) || string(v) != old {
			return fmt.Errorf("Get(%q) = %q, %w, want %q, %t", key, v, err, old, there)
		}
	case "put":
		m[string(key)] = value
		return tx.Put(key, []byte(value), never)
	case "create":
		err := tx.Create(key, []byte(value), never)
		if there != errors.Is(err, storage.ErrExists) || !there && err != nil {
			return fmt.Errorf("Create(%q) = %w, want that it exists: %t", key, err, there)
		}
		if !there {
			m[string(key)] = value
		}
	case "delete":
		delete(m, string(key))
		return tx.Delete(key)
	default:
		before := maps.Clone(m)
		return scanStep(r, tx, before, func(k []byte) error {
			if op == "scan" {
				return nil
			}
			next := append(slices.Clone(k), 'a')
			m[string(next)] = "while ranging"
			delete(m, string(k))
			return errors.Join(tx.Put(next, []byte("while ranging"), never), tx.Delete(k))
		})
	}
	return nil
}

func scanStep(r *rapid.T, tx storage.Tx, m map[string]string, each func(key []byte) error) error {
	bytesOf := rapid.SampledFrom([][]byte{{}, {'a'}, {'b'}, {'a', 'a'}, {0}, {0xc3}, {0xc3, 0xbf}, {0xff}})
	rg := storage.Range{
		Prefix: bytesOf.Draw(r, "prefix"), Descending: rapid.Bool().Draw(r, "descending"), Limit: rapid.IntRange(0, 4).Draw(r, "limit"),
	}
	if rapid.Bool().Draw(r, "has after") {
		rg.After = append(bytesOf.Draw(r, "after"), bytesOf.Draw(r, "more")...)
	}
	want := expect(slices.Sorted(maps.Keys(m)), rg)
	got := []string{}
	for rec, err := range tx.Scan(rg) {
		if err != nil {
			return err
		}
		if m[string(rec.Key)] != string(rec.Value) {
			return fmt.Errorf("Scan(%+v) yields %q for %q, want %q", rg, rec.Value, rec.Key, m[string(rec.Key)])
		}
		got = append(got, string(rec.Key))
		if err := each(rec.Key); err != nil {
			return err
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("Scan(%+v) = %q, want %q", rg, got, want)
	}
	return nil
}

func compare(r *rapid.T, tx storage.Tx, m map[string]string) error {
	if err := scanStep(r, tx, m, func([]byte) error { return nil }); err != nil {
		return err
	}
	n := 0
	for rec, err := range tx.Scan(storage.Range{}) {
		if err != nil {
			return err
		}
		if m[string(rec.Key)] != string(rec.Value) {
			return fmt.Errorf("%q = %q, want %q", rec.Key, rec.Value, m[string(rec.Key)])
		}
		n++
	}
	if n != len(m) {
		return fmt.Errorf("%d records, want %d", n, len(m))
	}
	return nil
}
