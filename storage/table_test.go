package storage_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

type person struct {
	Name    string
	Born    time.Time
	Emails  []string
	Score   int64
	Ignored string `cbor:"-"`
}

func open(t *testing.T) storage.Store {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatalf("OpenMemory = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func update(t *testing.T, s storage.Store, fn func(storage.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update = %v", err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	s := open(t)
	people, others := storage.NewTable[person]("people"), storage.NewTable[person]("people2")
	ada := person{
		Name: "Ada", Born: time.Date(2015, 12, 10, 1, 2, 3, 456789000, time.UTC),
		Emails: []string{"ada@example.org"}, Score: -7, Ignored: "x",
	}
	update(t, s, func(tx storage.Tx) error {
		return errors.Join(people.Create(tx, "ada", ada, time.Time{}), others.Create(tx, "ada", person{Name: "other"}, time.Time{}))
	})
	update(t, s, func(tx storage.Tx) error {
		if err := people.Create(tx, "ada", ada, time.Time{}); !errors.Is(err, storage.ErrExists) {
			t.Errorf("Create = %v, want %v", err, storage.ErrExists)
		}
		got, err := people.Get(tx, "ada")
		if err != nil {
			return err
		}
		if got.Name != ada.Name || !got.Born.Round(time.Microsecond).Equal(ada.Born) || !slices.Equal(got.Emails, ada.Emails) ||
			got.Score != -7 || got.Ignored != "" {
			t.Errorf("Get = %+v, want %+v", got, ada)
		}
		if _, err := people.Get(tx, "bob"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get(bob) = %v, want %v", err, storage.ErrNotFound)
		}
		got.Score++
		return people.Put(tx, "ada", got, time.Time{})
	})
	update(t, s, func(tx storage.Tx) error {
		for key, want := range map[string]bool{"ada": true, "bob": false, "": false} {
			if has, err := people.Has(tx, key); err != nil || has != want {
				t.Errorf("Has(%q) = %t, %v, want %t", key, has, err, want)
			}
		}
		got, err := people.Get(tx, "ada")
		if err != nil || got.Score != -6 {
			t.Errorf("Get = %+v, %v, want score -6", got, err)
		}
		if raw, err := tx.Get(people.Key("ada")); err != nil || len(raw) == 0 {
			t.Errorf("Get(%q) = %q, %v, want the record", people.Key("ada"), raw, err)
		}
		return people.Delete(tx, "ada")
	})
	err := s.View(t.Context(), func(tx storage.Tx) error {
		if has, err := people.Has(tx, "ada"); err != nil || has {
			t.Errorf("Has(ada) = %t, %v, want false", has, err)
		}
		got, err := others.Get(tx, "ada")
		if got.Name != "other" {
			t.Errorf("Get from the other table = %+v, want its own record", got)
		}
		return err
	})
	if err != nil {
		t.Errorf("View = %v", err)
	}
}

func TestTableZeroTime(t *testing.T) {
	t.Parallel()
	s := open(t)
	people := storage.NewTable[person]("people")
	update(t, s, func(tx storage.Tx) error {
		if err := people.Put(tx, "x", person{}, time.Time{}); err != nil {
			return err
		}
		got, err := people.Get(tx, "x")
		if !got.Born.IsZero() {
			t.Errorf("Born = %v, want the zero time", got.Born)
		}
		return err
	})
}

func TestTableFind(t *testing.T) {
	t.Parallel()
	s := open(t)
	people := storage.NewTable[person]("people")
	update(t, s, func(tx storage.Tx) error {
		return errors.Join(
			people.Create(tx, "ada", person{Name: "Ada", Score: 7}, time.Time{}),
			people.Create(tx, "zero", person{}, time.Time{}),
			// A record whose first member is fine and whose second is not: nothing of it must come out.
			tx.Create(people.Key("damaged"), []byte("\xa2\x64Name\x63Bob\x65Score\x61x"), time.Time{}),
		)
	})
	for name, tc := range map[string]struct {
		key   string
		want  person
		found bool
		err   error
	}{
		"a record":                 {"ada", person{Name: "Ada", Score: 7}, true, nil},
		"a record of zero value":   {"zero", person{}, true, nil},
		"no record":                {"bob", person{}, false, nil},
		"no record, empty key":     {"", person{}, false, nil},
		"a record that is damaged": {"damaged", person{}, false, storage.ErrCorrupt},
	} {
		err := s.View(t.Context(), func(tx storage.Tx) error {
			got, found, err := people.Find(tx, tc.key)
			if got.Name != tc.want.Name || got.Score != tc.want.Score || found != tc.found || !errors.Is(err, tc.err) {
				t.Errorf("%s: Find(%q) = %+v, %t, %v, want %+v, %t, %v", name, tc.key, got, found, err, tc.want, tc.found, tc.err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: View = %v", name, err)
		}
	}
}

// A transaction that cannot read is not one that found nothing.
func TestTableFindFailure(t *testing.T) {
	t.Parallel()
	s := open(t)
	people := storage.NewTable[person]("people")
	var ended storage.Tx
	update(t, s, func(tx storage.Tx) error {
		ended = tx
		return nil
	})
	if _, found, err := people.Find(ended, "ada"); found || err == nil {
		t.Errorf("Find in a transaction that has ended = %t, %v, want an error", found, err)
	}
}

// An older program reads what a newer one wrote, and the reverse.
func TestTableMembersComeAndGo(t *testing.T) {
	t.Parallel()
	s := open(t)
	type older struct{ Name string }
	type newer struct {
		Name  string
		Extra map[string]int
	}
	was, is := storage.NewTable[older]("t"), storage.NewTable[newer]("t")
	update(t, s, func(tx storage.Tx) error {
		if err := errors.Join(was.Put(tx, "old", older{"a"}, time.Time{}),
			is.Put(tx, "new", newer{"b", map[string]int{"x": 1}}, time.Time{})); err != nil {
			return err
		}
		o, err := is.Get(tx, "old")
		n, err2 := was.Get(tx, "new")
		if o.Name != "a" || o.Extra != nil || n.Name != "b" {
			t.Errorf("Get = %+v and %+v, want a and b", o, n)
		}
		return errors.Join(err, err2)
	})
}

func TestTableDamagedRecord(t *testing.T) {
	t.Parallel()
	s := open(t)
	people := storage.NewTable[person]("people")
	update(t, s, func(tx storage.Tx) error {
		if err := tx.Put(people.Key("x"), []byte("not CBOR"), time.Time{}); err != nil {
			return err
		}
		if _, err := people.Get(tx, "x"); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("Get = %v, want %v", err, storage.ErrCorrupt)
		}
		n := 0
		for _, err := range people.Scan(tx, storage.Range{}) {
			if n++; !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("Scan = %v, want %v", err, storage.ErrCorrupt)
			}
		}
		if n != 1 {
			t.Errorf("Scan yields %d times, want once, the error", n)
		}
		return nil
	})
}

func TestTableScan(t *testing.T) {
	t.Parallel()
	s := open(t)
	numbers, before, behind := storage.NewTable[int]("n"), storage.NewTable[int]("m"), storage.NewTable[int]("n0")
	update(t, s, func(tx storage.Tx) error {
		for i, key := range []string{"a", "b/1", "b/2", "b/3", "c"} {
			if err := errors.Join(numbers.Put(tx, key, i, time.Time{}), before.Put(tx, key, -1, time.Time{}),
				behind.Put(tx, key, -1, time.Time{})); err != nil {
				return err
			}
		}
		return nil
	})
	for name, tc := range map[string]struct {
		r    storage.Range
		want string
	}{
		"all":               {storage.Range{}, "a b/1 b/2 b/3 c"},
		"descending":        {storage.Range{Descending: true}, "c b/3 b/2 b/1 a"},
		"prefix":            {storage.Range{Prefix: []byte("b/")}, "b/1 b/2 b/3"},
		"after":             {storage.Range{After: []byte("b/2")}, "b/3 c"},
		"after, descending": {storage.Range{After: []byte("b/2"), Descending: true}, "b/1 a"},
		"after nothing":     {storage.Range{After: []byte{}}, "a b/1 b/2 b/3 c"},
		"limit":             {storage.Range{Prefix: []byte("b/"), Limit: 2, Descending: true}, "b/3 b/2"},
		"none":              {storage.Range{Prefix: []byte("x")}, ""},
	} {
		var keys []string
		err := s.View(t.Context(), func(tx storage.Tx) error {
			for e, err := range numbers.Scan(tx, tc.r) {
				if err != nil {
					return err
				}
				if e.Value < 0 {
					t.Errorf("%s: %q comes from another table", name, e.Key)
				}
				keys = append(keys, e.Key)
			}
			return nil
		})
		if got := strings.Join(keys, " "); err != nil || got != tc.want {
			t.Errorf("%s: Scan = %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func TestNewTableRefusesBadNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a/b", "a\x00"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewTable(%q) = nil, want a panic", name)
				}
			}()
			storage.NewTable[int](name)
		}()
	}
}

// parts are parts of keys with the bytes that Key must escape.
func parts() *rapid.Generator[[]string] {
	part := rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 'a', 'b', '/', 'ÿ'}), 0, 4, -1)
	return rapid.SliceOfN(part, 1, 4)
}

func TestKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		a, b := parts().Draw(r, "a"), parts().Draw(r, "b")
		ka, kb := storage.Key(a...), storage.Key(b...)
		if got := storage.Parts(ka); !slices.Equal(got, a) {
			r.Fatalf("Parts(Key(%q)) = %q", a, got)
		}
		if got, want := strings.Compare(ka, kb), slices.Compare(a, b); got != want {
			r.Fatalf("order of Key(%q) and Key(%q) = %d, want %d", a, b, got, want)
		}
		starts := len(b) > len(a) && slices.Equal(b[:len(a)], a)
		if got := bytes.HasPrefix([]byte(kb), storage.Prefix(a...)); got != starts {
			r.Fatalf("Key(%q) starts with Prefix(%q): %t, want %t", b, a, got, starts)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("\x00", "\x01\x00", "\x00\xff\x01")
	f.Add("a\x00\x01", "", "\xff")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if got := storage.Parts(storage.Key(a, b, c)); !slices.Equal(got, []string{a, b, c}) {
			t.Errorf("Parts(Key(%q, %q, %q)) = %q", a, b, c, got)
		}
		if got, want := strings.Compare(storage.Key(a, b), storage.Key(a, c)), strings.Compare(b, c); got != want {
			t.Errorf("order of Key(%q, %q) and Key(%q, %q) = %d, want %d", a, b, a, c, got, want)
		}
		if storage.Key(a, b) == storage.Key(a+"\x00\x01"+b) {
			t.Errorf("Key(%q, %q) is also the key of one part", a, b)
		}
	})
}

func TestIsFailure(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		nil: false, storage.ErrNotFound: false, storage.ErrExists: false, storage.ErrTooLarge: false,
		storage.ErrFull: true, storage.ErrUnavailable: true, storage.ErrCorrupt: true, errors.New("other"): true,
	} {
		if got := storage.IsFailure(err); got != want {
			t.Errorf("IsFailure(%v) = %t, want %t", err, got, want)
		}
	}
}
