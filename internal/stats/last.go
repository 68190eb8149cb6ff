package stats

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// lastKept is the time that the last occurrence of something is remembered. What has not happened for so long is not in
// use.
const lastKept = 750 * 24 * time.Hour

// remembered are the measures of which it is known when each value of a dimension was last.
var remembered = map[string][]Dimension{
	audit.CountSignIn: {Provider, Application},
	audit.CountFailed: {Provider},
	activity:          {Application},
	Calls:             {APIClient},
	ClientCalls:       {Application},
}

// LastOf returns when a measure was counted last for a value of a dimension. found is false for never. What happens is
// known here a second or so later.
func LastOf(tx storage.Tx, measure string, by Dimension, value string) (last Last, found bool, err error) {
	last, found, err = lasts.Find(tx, storage.Key(measure, string(by), value))
	if errors.Is(err, storage.ErrCorrupt) {
		err = nil
	}
	return last, found, err
}

// LastOfEach returns when any of some measures was counted last, by the values of a dimension. Values for which none
// ever was are missing. It is one round trip.
func LastOfEach(tx storage.Tx, measures []string, by Dimension, values []string) (map[string]time.Time, error) {
	var keys [][]byte
	for _, value := range values {
		for _, measure := range measures {
			keys = append(keys, lasts.Key(storage.Key(measure, string(by), value)))
		}
	}
	out := map[string]time.Time{}
	if len(keys) == 0 {
		return out, nil
	}
	found, err := tx.GetMany(keys...)
	for i, raw := range found {
		if raw == nil {
			continue
		}
		last, err := lasts.Decode(raw)
		if value := values[i/len(measures)]; err == nil && last.At.After(out[value]) {
			out[value] = last.At
		}
	}
	return out, err
}

// latest is the newest of what one transaction counts, by the key of its record.
type latest map[string]Last

func (l latest) add(d dueRecord) {
	for _, by := range remembered[d.Measure] {
		value := d.By[by]
		if value == "" {
			continue
		}
		key := storage.Key(d.Measure, string(by), value)
		if have, ok := l[key]; !ok || d.At.After(have.At) {
			l[key] = Last{d.At, d.Reason, d.Address}
		}
	}
}

// write stores what is newer than what is known. A record that cannot be read is replaced.
func (l latest) write(tx storage.Tx) error {
	for _, key := range slices.Sorted(maps.Keys(l)) {
		have, found, err := lasts.Find(tx, key)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			return err
		}
		if err == nil && found && !l[key].At.After(have.At) {
			continue
		}
		if err := lasts.Put(tx, key, l[key], l[key].At.Add(lastKept)); err != nil {
			return err
		}
	}
	return nil
}

// caller is a program that calls: an API client or an OAuth client.
type caller struct {
	measure string
	by      Dimension
	id      string
}

// addCalls notes when programs have called last. id is new each time.
func addCalls(tx storage.Tx, id string, called map[caller]Last) error {
	for who, last := range called {
		d := dueRecord{Measure: who.measure, At: last.At, Address: last.Address, By: map[Dimension]string{who.by: who.id}}
		if err := dues.Put(tx, dueKey(last.At, storage.Key(id, who.measure, who.id)), d, never); err != nil {
			return err
		}
	}
	return nil
}
