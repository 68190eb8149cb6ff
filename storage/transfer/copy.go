package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Copy is all records of a source on their way into a store.
type Copy struct {
	From Source
	// Name of the source. A copy that was interrupted continues with the source of the same name alone.
	Name string
	To   storage.Store
	// After runs in the last transaction, which also makes the target usable. nil: nothing
	After func(storage.Tx) error
	// Now is the clock. nil: time.Now
	Now func() time.Time
	// Tell hears from time to time how far it is: what is done, and how many records of how many. nil: no one
	Tell func(step string, done, of int)
}

// Table are the records that were copied of one table.
type Table struct {
	Name    string `json:"table"`
	Records int    `json:"records"`
	// SHA256 is the hash of keys, values and expiries, the same in source and target.
	SHA256 string `json:"sha256"`
}

// Report are the records that were copied.
type Report struct {
	Records int `json:"records"`
	// Expired are records of the source or the target that could be collected meanwhile, and were not compared.
	Expired int `json:"expired"`
	// Resumed says that an interrupted copy was continued.
	Resumed bool    `json:"resumed"`
	Tables  []Table `json:"tables"`
}

// Errors of Run, besides those of source and target.
var (
	ErrNotEmpty = errors.New("the target holds records: copy into an empty storage")
	ErrNothing  = errors.New("the source holds no records")
	errOther    = errors.New("the target holds a part of another copy, whose source is")
	errRival    = errors.New("another copy writes into the target")
	errDiffers  = errors.New("source and target differ")
)

// late is the time before its expiry from which a record is not compared any more: the clocks of engines can differ.
const late = time.Minute

// Run copies. The target can be used once it has returned nil, and not before: see Complete. It reads the whole
// source before it writes anything. If it is interrupted, the same copy continues where it has stopped.
func (c *Copy) Run(ctx context.Context) (*Report, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Tell == nil {
		c.Tell = func(string, int, int) {}
	}
	rec, resumed, err := c.begun(ctx)
	if err != nil {
		return nil, err
	}
	count, err := c.count(ctx)
	if err != nil {
		return nil, err
	}
	if !resumed {
		if err := c.begin(ctx, rec); err != nil {
			return nil, err
		}
	}
	if err := c.write(ctx, rec, count); err != nil {
		return nil, err
	}
	report, err := c.compare(ctx, count)
	if err != nil {
		return nil, err
	}
	report.Resumed = resumed
	return report, c.finish(ctx)
}

// begun looks at the target.
func (c *Copy) begun(ctx context.Context) (rec copyRecord, resumed bool, err error) {
	now := c.Now()
	err = c.To.View(ctx, func(tx storage.Tx) error {
		rec, resumed, err = unfinished.Find(tx, copyKey)
		switch {
		case err != nil:
			return err
		case !resumed:
			rec = copyRecord{From: c.Name, BegunAt: now}
			return empty(tx)
		case rec.From != c.Name:
			return fmt.Errorf("%w %s", errOther, rec.From)
		}
		return nil
	})
	return rec, resumed, err
}

func empty(tx storage.Tx) error {
	for _, err := range tx.Scan(storage.Range{Limit: 1}) {
		if err != nil {
			return err
		}
		return ErrNotEmpty
	}
	return nil
}

// count reads the source: what cannot be read to its end is not copied at all.
func (c *Copy) count(ctx context.Context) (n int, err error) {
	err = c.each(ctx, nil, func(page []storage.Record) error {
		for _, rec := range page {
			if isMark(rec) {
				return fmt.Errorf("the source: %w", ErrUnfinished)
			}
		}
		n += len(page)
		c.Tell("reading", n, 0)
		return nil
	})
	if err == nil && n == 0 {
		err = ErrNothing
	}
	return n, err
}

func isMark(rec storage.Record) bool { return bytes.Equal(rec.Key, unfinished.Key(copyKey)) }

func (c *Copy) begin(ctx context.Context, rec copyRecord) error {
	return c.To.Update(ctx, func(tx storage.Tx) error {
		if err := empty(tx); err != nil {
			return err
		}
		return unfinished.Create(tx, copyKey, rec, time.Time{})
	})
}

// each calls fn with the records of the source after a key.
func (c *Copy) each(ctx context.Context, after []byte, fn func(page []storage.Record) error) error {
	for {
		page, err := c.From.page(ctx, after)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
		after = page[len(page)-1].Key
	}
}

// write writes what is missing. The mark moves in the transaction that writes the records, so an interruption loses and
// repeats nothing, and of two copies at a time one ends.
func (c *Copy) write(ctx context.Context, rec copyRecord, count int) error {
	done := 0
	if rec.After != nil { // how far it was
		err := c.each(ctx, nil, func(page []storage.Record) error {
			for _, r := range page {
				if bytes.Compare(r.Key, rec.After) <= 0 {
					done++
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return c.each(ctx, rec.After, func(page []storage.Record) error {
		next := rec
		next.After = page[len(page)-1].Key
		err := c.To.Update(ctx, func(tx storage.Tx) error {
			is, err := unfinished.Get(tx, copyKey)
			if errors.Is(err, storage.ErrNotFound) || err == nil && !bytes.Equal(is.After, rec.After) {
				return errRival
			}
			if err != nil {
				return err
			}
			for _, r := range page {
				if err := tx.Put(r.Key, r.Value, r.Expires); err != nil {
					return err
				}
			}
			return unfinished.Put(tx, copyKey, next, time.Time{})
		})
		if err != nil {
			return err
		}
		rec = next
		done += len(page)
		c.Tell("copying", done, count)
		return nil
	})
}

// digest is the hash of the records of one table in source or target.
type digest struct {
	hash.Hash

	count int
}

func (d *digest) add(rec storage.Record) {
	var w Writer
	w.all = d
	_ = w.Add(rec) // a hash takes everything
	d.count++
}

type digests map[string]*digest

func (d digests) add(rec storage.Record) {
	name, _, _ := strings.Cut(string(rec.Key), "/")
	if d[name] == nil {
		d[name] = &digest{Hash: sha256.New()}
	}
	d[name].add(rec)
}

// reader reads a source record by record.
type reader struct {
	from  Source
	page  []storage.Record
	after []byte
}

// head returns the next record, nil at the end.
func (r *reader) head(ctx context.Context) (*storage.Record, error) {
	if len(r.page) == 0 {
		page, err := r.from.page(ctx, r.after)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		r.page = page
	}
	return &r.page[0], nil
}

func (r *reader) next() {
	r.after, r.page = r.page[0].Key, r.page[1:]
}

// compare reads source and target side by side.
func (c *Copy) compare(ctx context.Context, count int) (*Report, error) {
	report := &Report{}
	of, is := digests{}, digests{}
	a, b := &reader{from: c.From}, &reader{from: FromStore(c.To)}
	now := c.Now().Add(late)
	gone := func(rec *storage.Record) error {
		if rec.Expires.IsZero() || rec.Expires.After(now) {
			name, _, _ := strings.Cut(string(rec.Key), "/")
			return fmt.Errorf("%w in the table %s: was the source used since the copy began? Empty the target and copy again", errDiffers, name)
		}
		report.Expired++
		return nil
	}
	for {
		x, err := a.head(ctx)
		if err != nil {
			return nil, err
		}
		y, err := b.head(ctx)
		if err != nil {
			return nil, err
		}
		if y != nil && isMark(*y) {
			b.next()
			continue
		}
		switch order := sequence(x, y); {
		case x == nil && y == nil:
			return report, c.sum(report, of, is)
		case order < 0:
			err = gone(x)
			a.next()
		case order > 0:
			err = gone(y)
			b.next()
		default:
			if bytes.Equal(x.Value, y.Value) && x.Expires.Equal(y.Expires) {
				of.add(*x)
				is.add(*y)
				report.Records++
			} else {
				err = gone(x)
			}
			a.next()
			b.next()
		}
		if err != nil {
			return nil, err
		}
		if report.Records%pageRecords == 0 {
			c.Tell("comparing", report.Records, count)
			now = c.Now().Add(late)
		}
	}
}

func sequence(x, y *storage.Record) int {
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return 1
	case y == nil:
		return -1
	}
	return bytes.Compare(x.Key, y.Key)
}

// sum compares numbers and hashes table by table.
func (c *Copy) sum(report *Report, of, is digests) error {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		want := hex.EncodeToString(of[name].Sum(nil))
		if got := is[name]; got == nil || got.count != of[name].count || hex.EncodeToString(got.Sum(nil)) != want {
			return fmt.Errorf("%w in the table %s", errDiffers, name)
		}
		report.Tables = append(report.Tables, Table{Name: name, Records: of[name].count, SHA256: want})
	}
	return nil
}

// finish makes the target usable.
func (c *Copy) finish(ctx context.Context) error {
	return c.To.Update(ctx, func(tx storage.Tx) error {
		if c.After != nil {
			if err := c.After(tx); err != nil {
				return err
			}
		}
		return unfinished.Delete(tx, copyKey)
	})
}
